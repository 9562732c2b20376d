"""Decide when the holder of a contended turn should yield."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.session import NANOSECONDS
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.turn import Turn


@dataclass(frozen=True, slots=True)
class YieldNow:
    """The holder should yield now."""

    idle: bool
    """Because the lane is idle, not because the quantum is over."""

    next_holder: str
    """The lease that the policy prefers."""

    leaves_gap: bool = False
    """The lane is idle, and the policy would prefer the holder if it were not."""


@dataclass(slots=True)
class KeepTurn:
    """The holder keeps its turn for now."""

    check_again_seconds: float
    quantum_ends_seconds: float
    yield_at_seconds: float | None = None
    """From when on the holder should yield at a boundary; None if unknown or already announced."""

    next_holder: str = ""
    """The lease that the policy will prefer then."""


def decide(
    turn: Turn, waiting: list[SessionView], settings: TurnSettings, now_seconds: float
) -> YieldNow | KeepTurn:
    """Decide whether the holder yields now, or when to check again.

    It yields when it has been between iterations for a while, and when its quantum is over and the policy
    prefers a waiting lease. What earlier gaps have cost it beyond the others' share is made up for first
    (:class:`GapWait`). If the policy prefers the holder, it has another turn's time. A turn lasts at least
    one iteration: when the shortest turn is checked, its holder is inside one or idle.

    The end of the quantum is known in advance. The holder is told, yields by itself, and needs no check for
    it.

    Args:
        turn: the holder's turn.
        waiting: the waiting leases.
        settings: the GPU's settings.
        now_seconds: the current time.
    """
    over_seconds = max(turn.quantum_ends_seconds, turn.began_seconds + settings.idle_seconds)
    if now_seconds <= turn.began_seconds:
        # The holder usually starts at once, so there is nothing to check for a while.
        next_holder = _next_holder(turn, waiting, settings, over_seconds)
        look_seconds = turn.began_seconds + settings.poll_seconds
        if next_holder:
            return KeepTurn(
                _aligned(look_seconds, settings), turn.quantum_ends_seconds, over_seconds, next_holder
            )
        return KeepTurn(min(over_seconds, look_seconds), turn.quantum_ends_seconds)
    idle_since_seconds = turn.idle_since_seconds(now_seconds)
    idle_at_seconds = 0.0
    if idle_since_seconds is not None:
        idle_at_seconds = max(
            idle_since_seconds + settings.idle_seconds,
            _gap_free_seconds(turn, waiting, idle_since_seconds, settings),
        )
        if now_seconds >= idle_at_seconds:
            due = _next_holder(turn, waiting, settings, now_seconds)
            next_holder = due or settings.policy.choose(waiting, now_seconds, turn.mean_weight) or ""
            return YieldNow(idle=True, next_holder=next_holder, leaves_gap=not due)
    quantum_ends_seconds = turn.quantum_ends_seconds
    if now_seconds >= over_seconds:
        next_holder = _next_holder(turn, waiting, settings, now_seconds)
        if next_holder:
            return YieldNow(idle=False, next_holder=next_holder)
        holder = turn.lease.to_view(now_seconds, turn.charge_seconds(now_seconds))
        quantum_ends_seconds = now_seconds + settings.turn_seconds(holder, [each.weight for each in waiting])
    yield_at_seconds, next_holder = None, ""
    if turn.yield_at_seconds is None or turn.yield_at_seconds < quantum_ends_seconds:
        yield_at_seconds = max(quantum_ends_seconds, over_seconds)
        next_holder = _next_holder(turn, waiting, settings, yield_at_seconds)
    if idle_since_seconds is not None:
        look_seconds = min(idle_at_seconds, max(quantum_ends_seconds, now_seconds + settings.poll_seconds))
    else:
        # Whatever iteration time the holder reports, it is checked when its quantum ends, or a little later
        # if it may have yielded by then.
        yields = bool(next_holder) or turn.yield_at_seconds is not None
        patience_seconds = settings.poll_seconds if yields else 0.0
        look_seconds = _look_seconds(turn, quantum_ends_seconds + patience_seconds, settings, now_seconds)
        if yields:
            look_seconds = _aligned(look_seconds, settings)
    return KeepTurn(
        look_seconds, quantum_ends_seconds, yield_at_seconds if next_holder else None, next_holder
    )


def _gap_free_seconds(
    turn: Turn, waiting: list[SessionView], idle_since_seconds: float, settings: TurnSettings
) -> float:
    """Return from when on a holder that is between iterations may leave the lane to any other lease. One that is idle for
    long does not keep it."""
    lease = turn.lease
    if not settings.policy.promises_shares or not lease.gap_wait.owed_seconds:
        return 0.0
    wait_ratio = sum(each.weight for each in waiting) / lease.weight
    free_seconds = turn.began_seconds + lease.gap_wait.free_after_seconds(wait_ratio)
    return min(free_seconds, idle_since_seconds + settings.recall_seconds)


def _next_holder(turn: Turn, waiting: list[SessionView], settings: TurnSettings, at_seconds: float) -> str:
    """Return the lease that the policy prefers if the holder continues until then; empty if none."""
    holder = turn.lease.to_view(at_seconds, turn.charge_seconds(at_seconds))
    preferred = settings.policy.choose([*waiting, holder], at_seconds, turn.mean_weight)
    return "" if preferred is None or preferred == holder.key else preferred


def next_look_seconds(turn: Turn, settings: TurnSettings, now_seconds: float) -> float:
    """Return when to check a holder again that was told when to yield and is inside an iteration."""
    latest_seconds = (turn.yield_at_seconds or 0.0) + settings.poll_seconds
    return _aligned(_look_seconds(turn, latest_seconds, settings, now_seconds), settings)


def repeat_seconds(now_seconds: float, settings: TurnSettings) -> float:
    """Return when to check a holder again that may have missed a request to yield."""
    return _aligned(now_seconds + settings.poll_seconds, settings)


def _look_seconds(turn: Turn, latest_seconds: float, settings: TurnSettings, now_seconds: float) -> float:
    """Return when the holder's iteration should have ended, but no later than that, and not at once."""
    soon_seconds = now_seconds + settings.poll_seconds
    if latest_seconds <= soon_seconds:
        return soon_seconds
    return min(latest_seconds, max(soon_seconds, _expected_boundary_seconds(turn, now_seconds)))


def _aligned(look_seconds: float, settings: TurnSettings) -> float:
    """Return when to check a holder that yields by itself: aligned across lanes, because each check costs
    a wake-up."""
    return ceil(look_seconds / settings.poll_seconds) * settings.poll_seconds


def _expected_boundary_seconds(turn: Turn, now_seconds: float) -> float:
    """Return when the holder's current iteration should end; nothing changes before that."""
    if turn.lease.counted is None:
        return 0.0
    last_seconds = max(session.page.boundary_ns for session in turn.holders) / NANOSECONDS
    return min(last_seconds, now_seconds) + turn.lease.counted.iteration_seconds
