"""GPUNodes as tables: the nodes, their GPUs, and the containers that use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from laneway.api.gpu_node import GPUNodeStatus, GPUStatus, SessionState, SessionStatus
from laneway.api.quantity import format_bytes
from laneway.cli.exit_codes import CommandError
from laneway.cli.output import table


@dataclass(frozen=True)
class NodeReport:
    """What the agent of a node has written last."""

    name: str
    status: GPUNodeStatus

    @property
    def ready(self) -> str:
        """``True``, ``False`` or, without a report, ``Unknown``."""
        return next((str(each.status) for each in self.status.conditions if each.type == "Ready"), "Unknown")


def node_report(gpu_node: dict[str, Any]) -> NodeReport:
    """Return the report in a GPUNode.

    Raises:
        CommandError: it was written by a version that writes other fields.
    """
    name = gpu_node["metadata"]["name"]
    try:
        return NodeReport(name, GPUNodeStatus.model_validate(gpu_node.get("status") or {}))
    except ValueError as error:
        raise CommandError(f"GPUNode {name} cannot be read: {error}") from error


def node_table(reports: Sequence[NodeReport]) -> str:
    """Return a line for each node."""
    header = ("NODE", "READY", "GPUS", "HEALTHY", "MODEL", "SHARES USED", "ENFORCEMENT", "CONTAINERS")
    rows = []
    for report in reports:
        gpus = report.status.gpus
        used = sum(_used_percent(gpu) for gpu in gpus)
        rows.append(
            [
                report.name,
                report.ready,
                str(len(gpus)),
                str(sum(gpu.healthy for gpu in gpus)),
                _distinct(gpu.model for gpu in gpus),
                f"{used}% of {100 * len(gpus)}%",
                _distinct(str(gpu.enforcement) for gpu in gpus),
                str(len({session.key for gpu in gpus for session in _present(gpu)})),
            ]
        )
    return table(header, rows)


def gpu_table(reports: Sequence[NodeReport]) -> str:
    """Return a line for each GPU."""
    header = (
        "NODE",
        "GPU",
        "UUID",
        "MODEL",
        "MEMORY",
        "HELD",
        "SHARES USED",
        "LANES",
        "ENFORCEMENT",
        "REMARK",
    )
    rows = []
    for report in reports:
        for gpu in report.status.gpus:
            held_bytes = sum(session.held_bytes for session in _present(gpu))
            remark = gpu.health_reason if not gpu.healthy else gpu.enforcement_reason or gpu.health_reason
            rows.append(
                [
                    report.name,
                    str(gpu.index),
                    gpu.uuid,
                    gpu.model,
                    format_bytes(gpu.memory_bytes),
                    format_bytes(held_bytes),
                    f"{_used_percent(gpu)}% of 100%",
                    str(len(gpu.lanes)),
                    str(gpu.enforcement) if gpu.healthy else "unhealthy",
                    remark or "-",
                ]
            )
    return table(header, rows)


@dataclass(frozen=True)
class ContainerOnGPU:
    """What a container holds of a GPU."""

    report: NodeReport
    gpu: GPUStatus
    session: SessionStatus

    @property
    def identity(self) -> tuple[str, str, str]:
        """Its node, its GPU and its key."""
        return self.report.name, self.gpu.uuid, self.session.key

    @property
    def document(self) -> dict[str, Any]:
        """The entry of ``status.gpus[].sessions`` in the GPUNode, with the node and the GPU."""
        place = {"node": self.report.name, "index": self.gpu.index, "uuid": self.gpu.uuid}
        return {**place, **self.session.to_json()}


def ended(container: ContainerOnGPU) -> ContainerOnGPU:
    """Return a container that is gone as the table shows it, with its last figures."""
    session = container.session.model_copy(update={"state": SessionState.ENDED})
    return replace(container, session=session)


def containers_on_gpus(reports: Sequence[NodeReport], namespace: str | None) -> list[ContainerOnGPU]:
    """Return the containers of a namespace, or of all (None); that with the most memory first."""
    found = [
        ContainerOnGPU(report, gpu, session)
        for report in reports
        for gpu in report.status.gpus
        for session in _present(gpu)
        if namespace in (None, session.namespace)
    ]
    return sorted(
        found, key=lambda each: (-each.session.held_bytes, each.session.namespace, each.session.pod)
    )


def container_table(
    containers: Sequence[ContainerOnGPU], *, namespaces: bool = False, wide: bool = False
) -> str:
    """Return a line for each container on a GPU."""
    header = (
        "POD",
        "NODE",
        "GPU",
        "LANE",
        "SHARE",
        "HELD",
        "QUOTA",
        "STATE",
        "ITERATION",
        "ITERATIONS",
        "REMARK",
    )
    wide_header = ("CONTAINER", "UUID", "ENFORCEMENT")
    rows = []
    for each in containers:
        session = each.session
        row = [
            f"{session.namespace}/{session.pod}" if namespaces else session.pod,
            each.report.name,
            str(each.gpu.index),
            "-" if session.lane is None else str(session.lane),
            f"{session.share_percent}%",
            format_bytes(session.held_bytes),
            format_bytes(session.quota_bytes),
            str(session.state),
            f"{session.iteration_microseconds / 1000:.1f} ms" if session.iteration_microseconds else "-",
            str(session.iterations),
            session.message or "-",
        ]
        rows.append([*row, *((session.container, each.gpu.uuid, str(session.enforcement)) if wide else ())])
    return table((*header, *(wide_header if wide else ())), rows)


def _present(gpu: GPUStatus) -> Iterator[SessionStatus]:
    return (session for session in gpu.sessions if session.state != SessionState.ENDED)


def _used_percent(gpu: GPUStatus) -> int:
    return sum(session.share_percent for session in _present(gpu))


def _distinct(values: Iterator[str]) -> str:
    return ", ".join(sorted(set(values))) or "-"
