"""A frozen picture of one GPU, taken on the loop's thread and read on others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laneway.api.container_record import ContainerRecord
from laneway.api.enforcement import Enforcement, stronger
from laneway.api.gpu_node import SessionState
from laneway.api.inventory import InventoryGPU
from laneway.node_agent.orders.telling import order_text
from laneway.node_agent.turns.gpu_turns import GPUTurns
from laneway.node_agent.turns.hold import Hold
from laneway.node_agent.turns.session import Report, Sizes
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
class HoldSnapshot:
    """A container's hold."""

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
    report: Report | None
    remaining_seconds: float | None
    """How long it still runs, as time passes when it is alone; None: not known."""
    held_bytes: int
    offloaded_bytes: int
    message: str
    processes: tuple[ProcessSnapshot, ...]


@dataclass(frozen=True, slots=True)
class GPUSnapshot:
    """A GPU."""

    gpu: InventoryGPU
    promised_bytes: int
    lanes: tuple[LaneSnapshot, ...]
    holds: tuple[HoldSnapshot, ...]
    running: tuple[TurnRecord, ...]
    durations: tuple[tuple[int, ...], float]
    """Counts by bucket, and the sum in seconds."""

    waits: tuple[tuple[int, ...], float]
    revoked: Mapping[str, int]


def take_snapshot(turns: GPUTurns, now_seconds: float) -> GPUSnapshot:
    """Return how a GPU stands. Called on the loop's thread; costs a few microseconds a container."""
    names = {
        hold.key: f"{hold.record.namespace}/{hold.record.pod}"
        for hold in (*turns.holds.values(), *turns.ended)
    }
    holds = [_take(turns, hold, ended=False, names=names) for hold in turns.holds.values()]
    holds += [_take(turns, hold, ended=True, names=names) for hold in turns.ended]
    log = turns.log
    return GPUSnapshot(
        gpu=turns.gpu,
        promised_bytes=turns.memory.table.promised_bytes,
        lanes=tuple(LaneSnapshot(lane.id, lane.ephemeral_bytes, lane.tenants) for lane in turns.memory.lanes),
        holds=tuple(holds),
        running=tuple(log.running(turn, now_seconds) for turn in turns.giver.turns.values()),
        durations=(tuple(log.durations.counts), log.durations.sum_seconds),
        waits=(tuple(log.waits.counts), log.waits.sum_seconds),
        revoked=dict(log.revoked),
    )


def _take(turns: GPUTurns, hold: Hold, *, ended: bool, names: Mapping[str, str]) -> HoldSnapshot:
    connected = bool(hold.connected)
    return HoldSnapshot(
        record=hold.record,
        quota_bytes=hold.quota_bytes,
        lane=None if ended else turns.memory.lane_of(hold),
        state=SessionState.ENDED if ended else hold.state(hold in turns.giver.turns),
        enforcement=stronger(
            hold.watched,
            Enforcement.COOPERATIVE if connected or (ended and hold.welcomed) else Enforcement.NONE,
        ),
        evicted=hold.evicted,
        profiled=hold.last_sizes is not None,
        sizes=hold.last_sizes,
        turns=hold.counters.turns,
        iterations=hold.iterations,
        busy_seconds=hold.busy_seconds,
        data_seconds=hold.data_seconds,
        report=hold.report,
        remaining_seconds=_remaining_seconds(hold),
        held_bytes=hold.held_bytes,
        offloaded_bytes=hold.offloaded_bytes,
        message=_message(turns, hold, ended=ended, names=names),
        processes=tuple(
            ProcessSnapshot(
                session.pid,
                session.connected,
                session.page.inside,
                session.page.held_bytes,
                session.page.iterations,
            )
            for session in hold.sessions
        ),
    )


def _remaining_seconds(hold: Hold) -> float | None:
    """Return what a script said by steps; of one that only said how many iterations are left, those with the time for their data."""
    if hold.report is not None and hold.report.remaining_seconds is not None:
        return hold.report.remaining_seconds
    service_seconds, sizes = hold.remaining_seconds(), hold.last_sizes
    if service_seconds is None or sizes is None or not sizes.iteration_seconds:
        return service_seconds
    return service_seconds * (1 + sizes.data_seconds / sizes.iteration_seconds)


def _message(turns: GPUTurns, hold: Hold, *, ended: bool, names: Mapping[str, str]) -> str:
    if ended:
        return "; ".join(text for text in (hold.epitaph, hold.note) if text)
    parts = [order_text(hold)]
    if hold.in_table:
        parts.append(turns.memory.why_no_lane(hold))
    parts += [hold.uncovered, hold.over_quota, hold.watch_text, hold.epitaph, hold.note]
    if hold.lost:
        parts.append("its client went away without a goodbye")
        if hold.sessions:
            parts.append("its process lives, so its memory counts")
    text = "; ".join(part for part in parts if part)
    for key, name in names.items():
        text = text.replace(key, name)
    return text[:1024]
