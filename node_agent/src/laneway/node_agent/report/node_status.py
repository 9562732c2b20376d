"""``GPUNode.status`` from snapshots: pure."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api.clock_text import to_text
from laneway.api.conditions import Condition
from laneway.api.gpu_node import GPUNodeStatus, GPUStatus, LaneStatus, ReportStatus, SessionStatus
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.report.snapshot import GPUSnapshot, HoldSnapshot

_MOST = 2**53


def node_status(
    gpus: Sequence[tuple[GPUSnapshot, GPUHealth]], conditions: tuple[Condition, ...]
) -> GPUNodeStatus:
    """Return what a node with these GPUs reports; the time of writing is added by who writes."""
    return GPUNodeStatus(
        conditions=conditions,
        gpu_count=len(gpus),
        gpus=tuple(_gpu_status(snapshot, health) for snapshot, health in gpus),
    )


def ready_condition(gpus: Sequence[GPUHealth], since_seconds: float) -> Condition:
    """Return the condition Ready of an agent that runs: it holds as long as a GPU is healthy."""
    sick = sum(not health.healthy for health in gpus)
    if sick == len(gpus):
        reasons = "; ".join(health.reason for health in gpus)[:1024]
        return not_ready("NoHealthyGPU", f"none of the {len(gpus)} GPUs is healthy: {reasons}", since_seconds)
    message = f"the agent runs and sees {len(gpus)} GPUs" + (f", {sick} of them unhealthy" if sick else "")
    return Condition(
        type="Ready",
        status="True",
        reason="AgentRuns",
        message=message,
        last_transition_time=to_text(since_seconds),
    )


def gpus_healthy_condition(gpus: Sequence[tuple[str, GPUHealth]], since_seconds: float) -> Condition:
    """Return the condition GPUsHealthy of these (uuid, health); its message names those that are not, and why."""
    sick = [f"{uuid}: {health.reason}" for uuid, health in gpus if not health.healthy]
    warnings = [f"{uuid}: {health.reason}" for uuid, health in gpus if health.healthy and health.reason]
    return Condition(
        type="GPUsHealthy",
        status="False" if sick else "True",
        reason="GPUUnhealthy" if sick else "AllHealthy",
        message="; ".join([*sick, *warnings])[:4096] or f"all {len(gpus)} GPUs are healthy",
        last_transition_time=to_text(since_seconds),
    )


def not_ready(reason: str, message: str, since_seconds: float) -> Condition:
    """Return the condition Ready of a node that has no GPUs to offer."""
    return Condition(
        type="Ready",
        status="False",
        reason=reason,
        message=message,
        last_transition_time=to_text(since_seconds),
    )


def _gpu_status(snapshot: GPUSnapshot, health: GPUHealth) -> GPUStatus:
    gpu = snapshot.gpu
    return GPUStatus(
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        allocatable_bytes=gpu.allocatable_bytes,
        allocatable_percent=gpu.allocatable_percent,
        numa_node=gpu.numa_node,
        nvlink_peers=gpu.nvlink_peers,
        healthy=health.healthy,
        health_reason=health.reason,
        unhealthy_since=None
        if health.unhealthy_since_seconds is None
        else to_text(health.unhealthy_since_seconds),
        simulated=gpu.simulated,
        enforcement=gpu.enforcement,
        enforcement_reason=gpu.enforcement_reason,
        lanes=tuple(
            LaneStatus(id=lane.id, ephemeral_bytes=lane.ephemeral_bytes, sessions=lane.keys)
            for lane in snapshot.lanes
        ),
        sessions=tuple(_bounded(_session_status(gpu.uuid, hold)) for hold in snapshot.holds),
    )


def _bounded(session: SessionStatus) -> SessionStatus:
    """Return it with integers that the API server takes: much of it is what processes say, and one liar must not keep the
    node from reporting."""
    values = ((name, getattr(session, name)) for name in SessionStatus.model_fields)
    large = {name: _MOST for name, value in values if isinstance(value, int) and value > _MOST}
    return session.model_copy(update=large) if large else session


def _session_status(gpu: str, hold: HoldSnapshot) -> SessionStatus:
    record, sizes = hold.record, hold.sizes
    return SessionStatus(
        key=record.key,
        namespace=record.namespace,
        pod=record.pod,
        podUID=record.pod_uid,
        container=record.container,
        job=record.job,
        rank=record.rank,
        attempt=record.attempt,
        share_percent=record.shares[gpu],
        quota_bytes=hold.quota_bytes,
        lane=hold.lane,
        state=hold.state,
        enforcement=hold.enforcement,
        evicted=hold.evicted,
        profiled=hold.profiled,
        persistent_bytes=0 if sizes is None else sizes.persistent_bytes + sizes.framework_bytes,
        ephemeral_bytes=0 if sizes is None else sizes.ephemeral_bytes,
        framework_bytes=0 if sizes is None else sizes.framework_bytes,
        iteration_spread_microseconds=0 if sizes is None else round(sizes.iteration_seconds_spread * 1e6),
        iteration_microseconds=0 if sizes is None else round(sizes.iteration_seconds * 1_000_000),
        model_bytes=0 if sizes is None else sizes.model_bytes,
        largest_tensor_bytes=0 if sizes is None else sizes.largest_tensor_bytes,
        turns=hold.turns,
        iterations=hold.iterations,
        data_microseconds=0 if sizes is None else round(sizes.data_seconds * 1e6),
        gpu_milliseconds=round(hold.busy_seconds * 1000),
        data_milliseconds=round(hold.data_seconds * 1000),
        report=_report_status(hold),
        held_bytes=hold.held_bytes,
        offloaded_bytes=hold.offloaded_bytes,
        message=hold.message,
    )


def _report_status(hold: HoldSnapshot) -> ReportStatus | None:
    """Return what the script said. Of one that says only how many steps there are, iterations are taken for steps."""
    report, remaining_seconds = hold.report, hold.remaining_seconds
    if report is None and remaining_seconds is None:
        return None
    said = ReportStatus(
        remaining_seconds=None if remaining_seconds is None else min(_MOST, round(remaining_seconds))
    )
    if report is None:
        return said
    step = report.step
    if step is None and report.steps is not None:
        step = min(hold.iterations, report.steps)
    return said.model_copy(
        update={
            "step": step,
            "steps": report.steps,
            "epoch": report.epoch,
            "loss": report.loss,
            "reported_at": to_text(report.heard_seconds),
        }
    )
