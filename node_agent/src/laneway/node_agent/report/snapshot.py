"""A frozen snapshot of one GPU, taken on the loop's thread and read on others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from laneway.api.container_record import ContainerRecord
from laneway.api.enforcement import Enforcement, stronger
from laneway.api.goodput_status import BatchStatus
from laneway.api.gpu_node import SessionState
from laneway.api.inventory import InventoryGPU
from laneway.api.job_names import JobSentence
from laneway.node_agent.report.order_message import order_message
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.session import Report, SavedWork, Sizes
from laneway.node_agent.turns.stray_report import StrayReport
from laneway.node_agent.turns.turn_log import TurnRecord


@dataclass(frozen=True, slots=True)
class LaneSnapshot:
    """A lane."""

    id: int
    ephemeral_bytes: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProcessSnapshot:
    """A process of a container."""

    pid: int
    connected: bool
    inside: bool
    held_bytes: int
    iterations: int


@dataclass(frozen=True, slots=True)
class LeaseSnapshot:
    """A container's lease."""

    record: ContainerRecord
    quota_bytes: int
    lane: int | None
    state: SessionState
    enforcement: Enforcement
    evicted: str
    profiled: bool
    sizes: Sizes | None
    turns: int
    iterations: int
    busy_seconds: float
    data_seconds: float
    unscheduled_seconds: float
    """Time for which it computed without a turn while others of its lane wanted one."""
    report: Report | None
    saved_work: SavedWork | None
    batch: BatchStatus | None
    remaining_seconds: float | None
    """How long it would still run alone; None if unknown."""
    progress_ratio: float | None
    """Its recent progress as a part of its progress alone; None while it competes with no other lane."""
    held_bytes: int
    offloaded_bytes: int
    accounted_bytes: int
    """What its processes have in the memory account."""
    refusals: int
    """Allocations refused by the memory account."""
    message: str
    processes: tuple[ProcessSnapshot, ...]


@dataclass(frozen=True, slots=True)
class GPUSnapshot:
    """A GPU."""

    gpu: InventoryGPU
    promised_bytes: int
    lanes: tuple[LaneSnapshot, ...]
    leases: tuple[LeaseSnapshot, ...]
    running: tuple[TurnRecord, ...]
    durations: tuple[tuple[int, ...], float]
    """Counts by bucket, and the sum in seconds."""

    waits: tuple[tuple[int, ...], float]
    revoked: Mapping[str, int]
    strays: StrayReport
    evictions: Mapping[tuple[str, str], int]
    """By namespace and reason: how often the watchdog stopped a container's processes."""

    move_milliseconds_per_gib: int | None
    """The time to move a GiB of persistent memory to the host and back; None until it was measured."""


def take_snapshot(turns: GPUTurns, now_seconds: float) -> GPUSnapshot:
    """Take a snapshot of a GPU. Called on the loop's thread; costs a few microseconds per container."""
    leases = [_take(turns, lease, ended=False) for lease in turns.leases.values()]
    leases += [_take(turns, lease, ended=True) for lease in turns.ended]
    log = turns.log
    return GPUSnapshot(
        gpu=turns.gpu,
        promised_bytes=turns.memory.table.promised_bytes,
        lanes=tuple(LaneSnapshot(lane.id, lane.ephemeral_bytes, lane.tenants) for lane in turns.memory.lanes),
        leases=tuple(leases),
        running=tuple(log.running(turn, now_seconds) for turn in turns.scheduler.turns.values()),
        durations=(tuple(log.durations.counts), log.durations.sum_seconds),
        waits=(tuple(log.waits.counts), log.waits.sum_seconds),
        revoked=dict(log.revoked),
        strays=turns.strays,
        evictions=dict(turns.evictions),
        move_milliseconds_per_gib=turns.orders.move_costs.milliseconds_per_gib,
    )


def _take(turns: GPUTurns, lease: Lease, *, ended: bool) -> LeaseSnapshot:
    connected = bool(lease.connected)
    return LeaseSnapshot(
        record=lease.record,
        quota_bytes=lease.quota_bytes,
        lane=None if ended else turns.memory.memory_lane_of(lease),
        state=SessionState.ENDED if ended else lease.state(lease in turns.scheduler.turns),
        enforcement=stronger(
            lease.watchdog_enforcement,
            Enforcement.COOPERATIVE if connected or (ended and lease.welcomed) else Enforcement.NONE,
        ),
        evicted=lease.evicted,
        profiled=lease.last_sizes is not None,
        sizes=lease.last_sizes,
        turns=lease.counters.turns,
        iterations=lease.iterations,
        busy_seconds=lease.busy_seconds,
        data_seconds=lease.data_seconds,
        unscheduled_seconds=lease.unscheduled_seconds,
        report=lease.report,
        saved_work=lease.saved_work,
        batch=lease.batch,
        remaining_seconds=_remaining_seconds(lease),
        progress_ratio=None if ended else turns.rate_control.progress_ratios().get(lease.key),
        held_bytes=lease.held_bytes,
        offloaded_bytes=lease.offloaded_bytes,
        accounted_bytes=lease.account.used_bytes,
        refusals=lease.account.refusals,
        message=_message(turns, lease, ended=ended),
        processes=tuple(
            ProcessSnapshot(
                session.pid,
                session.connected,
                session.page.inside,
                session.page.held_bytes,
                session.page.iterations,
            )
            for session in lease.sessions
        ),
    )


def _remaining_seconds(lease: Lease) -> float | None:
    """Return the remaining time that the script reported in steps. If it reported only remaining
    iterations, add the time for their data."""
    if lease.report is not None and lease.report.remaining_seconds is not None:
        return lease.report.remaining_seconds
    service_seconds, sizes = lease.remaining_seconds(), lease.last_sizes
    if service_seconds is None or sizes is None or not sizes.iteration_seconds:
        return service_seconds
    remaining_seconds = service_seconds * (1 + sizes.data_seconds / sizes.iteration_seconds)
    # A client may send a profile with absurd times; one such figure must not make the whole report invalid.
    return remaining_seconds if math.isfinite(remaining_seconds) else None


def _message(turns: GPUTurns, lease: Lease, *, ended: bool) -> str:
    if ended:
        return "; ".join(text for text in (lease.eviction_message, lease.last_event) if text)
    parts = [order_message(lease)]
    if lease.in_table:
        parts.append(turns.memory.no_lane_reason(lease))
    parts += [
        lease.uncovered,
        lease.overdue_release,
        lease.over_quota,
        lease.no_turns,
        lease.watchdog_message,
        lease.eviction_message,
        *lease.stray_messages.values(),
        lease.last_event,
    ]
    if lease.lost:
        parts.append("its client disconnected without a goodbye")
        if lease.sessions:
            parts.append("its process is alive, so its memory counts")
    text = "; ".join(part for part in parts if part)
    blocking = turns.scheduler.memory.blocked_by(lease)
    if blocking is not None:
        pod = f"{blocking.lease.record.namespace}/{blocking.lease.record.pod}"
        waits = JobSentence("Waiting for ", (pod,), f" to release its memory: it {blocking.cause}.")
        text = f"{waits.for_namespace(lease.record.namespace)} {text}".strip()
    return text[:1024]
