"""What ``doctor`` concludes from what it found in a cluster. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from laneway.api import quantity
from laneway.api.durations import duration
from laneway.api.gpu_node import GPUStatus
from laneway.api.names import GPU_PERCENT
from laneway.api.node_lease import DURATION_SECONDS, lease_name
from laneway.cli.enforcement_advice import (
    NOT_LOADED_ADVICE,
    ONE_PROCESS,
    ONE_PROCESS_ADVICE,
    advice,
    held_by,
    not_interposed,
)
from laneway.cli.gpu_node_format import NodeReport

Object = Mapping[str, Any]

_OLDEST_KUBERNETES = (1, 30)
"""The chart's ``kubeVersion``."""

_SIMULATED_ADVICE = (
    "on a trial cluster, nothing; for the node's real GPUs, set the chart's gpu.source to nvml"
)

_KINDS = {"trainingjobs", "gpunodes", "trainingprofiles"}
_MPS_DAEMON = "mps-daemon"
_CONTAINERS = {
    "board": "the board",
    "client": "the installation of the client",
    "device-plugin": "the device plugin",
    "node-agent": "the node agent",
    "operator": "the operator",
    _MPS_DAEMON: "the MPS daemon",
}
"""Laneway's own, by name. Its pods may have others, such as those of a service mesh."""


class Level(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"
    """The user may not read what it needs."""


@dataclass(frozen=True)
class Finding:
    """The result of a check."""

    level: Level
    subject: str
    message: str
    advice: str = ""
    """What to do; empty where there is nothing."""


@dataclass(frozen=True)
class Right:
    """Something that the user wants to do, and whether the cluster allows it."""

    verb: str
    resource: str
    allowed: bool


@dataclass(frozen=True)
class Observations:
    """What was found. A list is None where the user may not read it."""

    cli_version: str
    kubernetes_version: str
    resources: frozenset[str]
    """Resources of Laneway's API group; empty: it is not installed."""

    namespace: str
    rights: Sequence[Right] = ()
    pods: Sequence[Object] | None = None
    """Laneway's own."""

    nodes: Sequence[Object] | None = None
    reports: Sequence[NodeReport] | None = None
    leases: Sequence[Object] | None = None
    now: datetime = field(default_factory=lambda: datetime.now(UTC))


def diagnose(observed: Observations) -> Iterator[Finding]:
    """Yield the findings, from the cluster down to the GPUs."""
    yield _kubernetes(observed)
    yield _installation(observed)
    if not observed.resources:
        return
    yield _rights(observed)
    yield from _pods(observed)
    yield from _unreadable(observed)
    if observed.reports is None:
        return
    yield from _nodes_without_agent(observed.nodes or (), observed.reports)
    for report in observed.reports:
        yield from _node(report, observed)


def _kubernetes(observed: Observations) -> Finding:
    found = re.match(r"v?(\d+)\.(\d+)", observed.kubernetes_version)
    if found and (int(found[1]), int(found[2])) < _OLDEST_KUBERNETES:
        return Finding(
            Level.FAILED,
            "kubernetes",
            f"{observed.kubernetes_version} is too old",
            f"upgrade the cluster to {'.'.join(map(str, _OLDEST_KUBERNETES))} or newer",
        )
    return Finding(Level.OK, "kubernetes", observed.kubernetes_version)


def _installation(observed: Observations) -> Finding:
    missing = sorted(_KINDS - observed.resources)
    if not observed.resources:
        return Finding(
            Level.FAILED,
            "installation",
            "the cluster has no TrainingJobs",
            "install Laneway, as docs/operate/README.md of its repository says",
        )
    if missing:
        return Finding(
            Level.FAILED,
            "installation",
            f"the cluster has no {', '.join(missing)}",
            "upgrade the chart with crds.enabled=true, or apply its crds",
        )
    return Finding(Level.OK, "installation", "the custom resources are installed")


def _rights(observed: Observations) -> Finding:
    denied = [f"{right.verb} {right.resource}" for right in observed.rights if not right.allowed]
    if denied:
        return Finding(
            Level.WARNING,
            "rights",
            f"in namespace {observed.namespace} you may not {', '.join(denied)}",
            f"ask an administrator for the ClusterRole edit in namespace {observed.namespace}",
        )
    return Finding(
        Level.OK, "rights", f"you may submit, suspend and delete jobs in namespace {observed.namespace}"
    )


def _pods(observed: Observations) -> Iterator[Finding]:
    """Yield what is wrong with Laneway's own pods: operator, board, device plugin, node agent, MPS daemon."""
    if observed.pods is None:
        yield Finding(
            Level.UNKNOWN, "pods", "you may not list Laneway's pods", "ask an administrator to run this"
        )
        return
    if not any(_label(pod, "component") == "operator" for pod in observed.pods):
        yield Finding(
            Level.FAILED,
            "operator",
            "no pod of the operator exists",
            "look at its Deployment: kubectl get deployments -A -l app.kubernetes.io/part-of=laneway",
        )
    healthy = 0
    for pod in observed.pods:
        problems = list(_container_problems(pod))
        yield from problems
        healthy += not problems
    if healthy:
        yield Finding(Level.OK, "pods", f"{healthy} of {len(observed.pods)} pods of Laneway are ready")
    yield from _versions(observed.pods, observed.cli_version)


def _versions(pods: Sequence[Object], cli_version: str) -> Iterator[Finding]:
    """Yield whether all that runs has the command's version. A label of the chart does not say what a pod runs: an image has a tag of its
    own, and an MPS daemon stays over upgrades."""
    running: dict[str, set[str]] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for container in (*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]):
            if container["name"] in _CONTAINERS and (tag := _tag(container["image"])):
                running.setdefault(tag, set()).add(container["name"])
    if set(running) == {cli_version}:
        yield Finding(Level.OK, "versions", f"the cluster and this command are {cli_version}")
    elif running:
        several = {
            tag: f" ({', '.join(sorted(names))})" if len(running) > 1 else ""
            for tag, names in running.items()
        }
        text = " and ".join(f"{tag}{names}" for tag, names in sorted(several.items()))
        advice = "install the same version of both"
        if any(_MPS_DAEMON in names and tag != cli_version for tag, names in running.items()):
            advice += "; upgrades do not replace an MPS daemon: drain its node and delete its pod"
        yield Finding(
            Level.WARNING, "versions", f"the cluster runs {text}, and this command is {cli_version}", advice
        )


def runs_mps_daemon(pod: Object) -> bool:
    """Return whether a pod has Laneway's MPS daemon."""
    return any(container["name"] == _MPS_DAEMON for container in pod["spec"]["containers"])


def _tag(image: str) -> str:
    """Return an image's tag; empty where its name has none."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[2]


def _container_problems(pod: Object) -> Iterator[Finding]:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    status = pod.get("status") or {}
    node = pod["spec"].get("nodeName")
    if not node:
        conditions = status.get("conditions") or ()
        why = next((each.get("message") for each in conditions if each["type"] == "PodScheduled"), "")
        yield Finding(
            Level.FAILED,
            f"pod {name}",
            f"it has no node: {why or 'kube-scheduler has not seen it'}",
            f"kubectl describe pod -n {namespace} {name}",
        )
        return
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    for container in containers:
        state = container.get("state") or {}
        done = (state.get("terminated") or {}).get("exitCode") == 0
        if container.get("ready") or done:
            continue
        ended = state.get("waiting") or state.get("terminated") or {}
        what = _CONTAINERS.get(container["name"], f"container {container['name']}")
        text = ": ".join(part for part in (ended.get("reason"), ended.get("message")) if part)
        yield Finding(
            Level.FAILED,
            f"pod {name}",
            f"{what} on {node} is not ready" + (f": {text}" if text else ""),
            f"kubectl logs -n {namespace} {name} -c {container['name']}",
        )


def _unreadable(observed: Observations) -> Iterator[Finding]:
    """Yield what the user may not read of the nodes, and the rights to it."""
    rights = {}
    if observed.nodes is None:
        rights["nodes"] = "the right to list nodes"
    if observed.reports is None:
        rights["GPUNodes"] = "the ClusterRole that ends with gpunodes-view"
    if rights:
        yield Finding(
            Level.UNKNOWN,
            "nodes",
            f"you may not list {' and '.join(rights)}",
            f"ask an administrator to run this, or for {' and '.join(rights.values())}",
        )


def _nodes_without_agent(nodes: Sequence[Object], reports: Sequence[NodeReport]) -> Iterator[Finding]:
    known = {report.name for report in reports}
    for node in nodes:
        name = node["metadata"]["name"]
        if name not in known and _amount(node, "nvidia.com/gpu"):
            yield Finding(
                Level.WARNING,
                f"node {name}",
                "it has NVIDIA GPUs and no agent of Laneway",
                "to share them, have the chart's node.nodeSelector and tolerations match it",
            )
    if not reports:
        yield Finding(
            Level.FAILED,
            "nodes",
            "no node has reported GPUs",
            "look at the DaemonSet: kubectl get daemonsets -A -l app.kubernetes.io/part-of=laneway",
        )


def _node(report: NodeReport, observed: Observations) -> Iterator[Finding]:
    """Yield the findings about a node: kubelet, agent, device plugin, driver, enforcement."""
    subject, problems = f"node {report.name}", 0
    node = next((each for each in observed.nodes or () if each["metadata"]["name"] == report.name), None)
    for finding in (
        *(() if observed.nodes is None else _kubelet(subject, node)),
        *_agent(subject, report, observed),
        *_plugin(subject, report, node),
        *_gpus(subject, report),
    ):
        problems += finding.level is not Level.OK
        yield finding
    if not problems:
        gpus = report.status.gpus
        yield Finding(Level.OK, subject, f"{len(gpus)} GPUs are shared; {held_by(gpus)}")


def _kubelet(subject: str, node: Object | None) -> Iterator[Finding]:
    if node is None:
        yield Finding(
            Level.WARNING,
            subject,
            "it has a GPUNode and is no node of the cluster",
            "delete the GPUNode if the node will not come back",
        )
        return
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((each for each in conditions if each["type"] == "Ready"), None)
    if ready is None or ready["status"] != "True":
        yield Finding(
            Level.FAILED,
            subject,
            f"its kubelet is not ready: {(ready or {}).get('message') or 'it has not reported'}",
            "look at the node: journalctl -u kubelet",
        )


def _agent(subject: str, report: NodeReport, observed: Observations) -> Iterator[Finding]:
    lease = next(
        (each for each in observed.leases or () if each["metadata"]["name"] == lease_name(report.name)), None
    )
    if lease is not None:
        renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
        silent_seconds = (observed.now - renewed).total_seconds()
        if silent_seconds > DURATION_SECONDS:
            yield Finding(
                Level.FAILED,
                subject,
                f"its agent has been silent for {duration(silent_seconds)}",
                "look at the agent's pod on the node",
            )
    for condition in report.status.conditions:
        if condition.type == "Ready" and condition.status != "True":
            yield Finding(
                Level.FAILED,
                subject,
                f"{condition.message} ({condition.reason})",
                "run nvidia-smi on the node; without a driver, exclude the node by the chart's node.nodeSelector",
            )
        if condition.type == "DoublyOffered" and condition.status == "True":
            yield Finding(
                Level.FAILED,
                subject,
                condition.message,
                "exclude the node by the nodeSelector of the other plugin's DaemonSet, or by the chart's node.nodeSelector",
            )


def _plugin(subject: str, report: NodeReport, node: Object | None) -> Iterator[Finding]:
    healthy = [gpu for gpu in report.status.gpus if gpu.healthy]
    if node is None or not healthy or _amount(node, GPU_PERCENT):
        return
    yield Finding(
        Level.FAILED,
        subject,
        f"its kubelet offers no {GPU_PERCENT}: the device plugin has not registered",
        "look at the logs of the container device-plugin on the node; the kubelet's folder for device plugins has to be mounted",
    )


def _gpus(subject: str, report: NodeReport) -> Iterator[Finding]:
    for gpu in report.status.gpus:
        if not gpu.healthy:
            yield Finding(
                Level.FAILED,
                subject,
                f"GPU {gpu.index} is not healthy: {gpu.health_reason}",
                "run nvidia-smi on the node, and look for its XID in dmesg",
            )
        else:
            yield from _enforcement(subject, gpu)
        if gpu.simulated:
            yield Finding(Level.WARNING, subject, f"GPU {gpu.index} is simulated", _SIMULATED_ADVICE)
    if report.status.gpus and not report.status.device_strategy and not report.status.gpus[0].simulated:
        yield Finding(
            Level.FAILED,
            subject,
            f"containers get no device: {report.status.device_strategy_reason}",
            "install NVIDIA's container toolkit on the node, or set the chart's driver root",
        )


def _enforcement(subject: str, gpu: GPUStatus) -> Iterator[Finding]:
    """Yield the findings about a GPU that works: its level, containers below that, and a compute mode that prevents sharing."""
    if gpu.enforcement_reason:
        text = f"GPU {gpu.index} has the enforcement {gpu.enforcement}: {gpu.enforcement_reason}"
        yield Finding(Level.WARNING, subject, text, advice(gpu.enforcement_reason))
    if gpu.health_reason:
        what_to_do = ONE_PROCESS_ADVICE if ONE_PROCESS in gpu.health_reason else "run nvidia-smi on the node"
        yield Finding(Level.WARNING, subject, f"GPU {gpu.index}: {gpu.health_reason}", what_to_do)
    if outside := ", ".join(not_interposed(gpu)):
        text = f"GPU {gpu.index}: the interposer is not in all processes of {outside}; only the watchdog holds them"
        yield Finding(Level.WARNING, subject, text, NOT_LOADED_ADVICE)


def _label(pod: Object, name: str) -> str:
    return str((pod["metadata"].get("labels") or {}).get(f"app.kubernetes.io/{name}", ""))


def _amount(node: Object, resource: str) -> int:
    return int(quantity.parse(((node.get("status") or {}).get("allocatable") or {}).get(resource, 0)))
