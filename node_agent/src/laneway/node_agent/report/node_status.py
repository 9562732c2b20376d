"""Builds ``GPUNode.status`` from snapshots: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.api.conditions import Condition
from laneway.api.enforcement import Enforcement
from laneway.api.gpu_node import (
    GPUNodeStatus,
    GPUStatus,
    LaneStatus,
    ReportStatus,
    SavedWorkStatus,
    SessionStatus,
)
from laneway.api.inventory import DeviceAccess, InventoryGPU
from laneway.api.rfc3339 import format_time
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.report.snapshot import GPUSnapshot, LeaseSnapshot


def node_status(
    gpus: Sequence[tuple[GPUSnapshot, GPUHealth]],
    conditions: tuple[Condition, ...],
    other_pods_requests: Mapping[str, str] | None = None,
    access: DeviceAccess | None = None,
) -> GPUNodeStatus:
    """Return the status of a node with these GPUs; the writer adds the time."""
    access = access or DeviceAccess()
    return GPUNodeStatus(
        device_strategy=access.strategy or "",
        device_strategy_reason=access.reason,
        conditions=conditions,
        other_pods_requests=None if other_pods_requests is None else dict(other_pods_requests),
        gpu_count=len(gpus),
        gpus=tuple(_gpu_status(snapshot, health) for snapshot, health in gpus),
    )


def ready_condition(gpus: Sequence[GPUHealth], since_seconds: float) -> Condition:
    """Return the condition Ready of a running agent: true as long as a GPU is healthy."""
    unhealthy = sum(not health.healthy for health in gpus)
    if unhealthy == len(gpus):
        reasons = "; ".join(health.reason for health in gpus)[:1024]
        return not_ready("NoHealthyGPU", f"none of the {len(gpus)} GPUs is healthy: {reasons}", since_seconds)
    message = f"the agent is running with {len(gpus)} GPUs" + (
        f", {unhealthy} of them unhealthy" if unhealthy else ""
    )
    return Condition(
        type="Ready",
        status="True",
        reason="AgentRuns",
        message=message,
        last_transition_time=format_time(since_seconds),
    )


def gpus_healthy_condition(gpus: Sequence[tuple[str, GPUHealth]], since_seconds: float) -> Condition:
    """Return the condition GPUsHealthy of these (uuid, health). Its message names unhealthy GPUs and the
    reasons."""
    unhealthy = [f"{uuid}: {health.reason}" for uuid, health in gpus if not health.healthy]
    warnings = [f"{uuid}: {health.reason}" for uuid, health in gpus if health.healthy and health.reason]
    return Condition(
        type="GPUsHealthy",
        status="False" if unhealthy else "True",
        reason="GPUUnhealthy" if unhealthy else "AllHealthy",
        message="; ".join([*unhealthy, *warnings])[:4096] or f"all {len(gpus)} GPUs are healthy",
        last_transition_time=format_time(since_seconds),
    )


def doubly_offered_condition(offers: Sequence[str], since_seconds: float) -> Condition:
    """Return the condition DoublyOffered: true while another device plugin hands out GPUs of this node."""
    return Condition(
        type="DoublyOffered",
        status="True" if offers else "False",
        reason="OtherDevicePlugin" if offers else "NoOtherDevicePlugin",
        message=f"another device plugin hands out GPUs of this node ({', '.join(offers)}), so no new worker starts here: "
        "remove that plugin and its pods from the node, or Laneway"
        if offers
        else "no other device plugin hands out GPUs of this node",
        last_transition_time=format_time(since_seconds),
    )


def not_ready(reason: str, message: str, since_seconds: float) -> Condition:
    """Return the condition Ready of a node without usable GPUs."""
    return Condition(
        type="Ready",
        status="False",
        reason=reason,
        message=message,
        last_transition_time=format_time(since_seconds),
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
        health_reason="; ".join(
            filter(None, (health.reason, _one_process(gpu, health), snapshot.strays.warning))
        ),
        unhealthy_since=None
        if health.unhealthy_since_seconds is None
        else format_time(health.unhealthy_since_seconds),
        simulated=gpu.simulated,
        enforcement=gpu.enforcement,
        enforcement_reason=gpu.enforcement_reason,
        move_milliseconds_per_gib=snapshot.move_milliseconds_per_gib,
        lanes=tuple(
            LaneStatus(id=lane.id, ephemeral_bytes=lane.ephemeral_bytes, sessions=lane.keys)
            for lane in snapshot.lanes
        ),
        sessions=tuple(_session_status(gpu.uuid, lease) for lease in snapshot.leases),
    )


def _one_process(gpu: InventoryGPU, health: GPUHealth) -> str:
    """Return a warning about a GPU that cannot be shared, as a clause; empty if it can be."""
    if health.reading is None or not health.reading.exclusive_process or gpu.enforcement == Enforcement.MPS:
        return ""
    return "only one process at a time can use it: its compute mode is EXCLUSIVE_PROCESS, and MPS is not in force"


def _session_status(gpu: str, lease: LeaseSnapshot) -> SessionStatus:
    record, sizes = lease.record, lease.sizes
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
        quota_bytes=lease.quota_bytes,
        lane=lease.lane,
        state=lease.state,
        enforcement=lease.enforcement,
        evicted=lease.evicted,
        profiled=lease.profiled,
        persistent_bytes=0 if sizes is None else sizes.persistent_bytes + sizes.framework_bytes,
        ephemeral_bytes=0 if sizes is None else sizes.ephemeral_bytes,
        framework_bytes=0 if sizes is None else sizes.framework_bytes,
        iteration_spread_microseconds=0 if sizes is None else round(sizes.iteration_seconds_spread * 1e6),
        iteration_microseconds=0 if sizes is None else round(sizes.iteration_seconds * 1_000_000),
        model_bytes=0 if sizes is None else sizes.model_bytes,
        largest_tensor_bytes=0 if sizes is None else sizes.largest_tensor_bytes,
        turns=lease.turns,
        iterations=lease.iterations,
        data_microseconds=0 if sizes is None else round(sizes.data_seconds * 1e6),
        gpu_milliseconds=round(lease.busy_seconds * 1000),
        data_milliseconds=round(lease.data_seconds * 1000),
        report=_report_status(lease),
        saved_work=_saved_work_status(lease),
        batch=lease.batch,
        held_bytes=lease.held_bytes,
        offloaded_bytes=lease.offloaded_bytes,
        message=lease.message,
    )


def _report_status(lease: LeaseSnapshot) -> ReportStatus | None:
    """Return the script's report. If it reported only the total steps, iterations count as steps."""
    report, remaining_seconds = lease.report, lease.remaining_seconds
    if report is None and remaining_seconds is None:
        return None
    status = ReportStatus(remaining_seconds=None if remaining_seconds is None else round(remaining_seconds))
    if report is None:
        return status
    step = report.step
    if step is None and report.steps is not None:
        step = min(lease.iterations, report.steps)
    return status.model_copy(
        update={
            "step": step,
            "steps": report.steps,
            "epoch": report.epoch,
            "loss": report.loss,
            "reported_at": format_time(report.heard_seconds),
        }
    )


def _saved_work_status(lease: LeaseSnapshot) -> SavedWorkStatus | None:
    saved = lease.saved_work
    if saved is None:
        return None
    loaded_seconds = saved.loaded_from_seconds
    return SavedWorkStatus(
        unsaved_since=format_time(saved.unsaved_since_seconds),
        checkpointed=saved.checkpointed,
        loaded_from=None if loaded_seconds is None else format_time(loaded_seconds),
        ended=saved.ended,
    )
