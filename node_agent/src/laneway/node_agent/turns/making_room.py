"""When the holder of a turn should make room, given that somebody else waits for its lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.session import NANOSECONDS
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.turn import Turn


@dataclass(frozen=True, slots=True)
class MakeRoom:
    """Now."""

    idle: bool
    """Because the lane lies idle, not because the quantum is over."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """Not yet."""

    look_again_seconds: float
    quantum_ends_seconds: float


def judge(
    turn: Turn, waiting: Sequence[SessionView], settings: TurnSettings, now_seconds: float
) -> MakeRoom | GoOn:
    """Say whether the holder makes room now, or when to look again.

    It makes room when it has been between iterations for a while, and when its quantum is over and the policy prefers
    one of those that wait. If the policy prefers the holder, it gets another quantum.
    """
    idle_since_seconds = turn.idle_since_seconds()
    if idle_since_seconds is not None and now_seconds >= idle_since_seconds + settings.idle_seconds:
        return MakeRoom(idle=True)
    quantum_ends_seconds = turn.quantum_ends_seconds
    if now_seconds >= quantum_ends_seconds and _has_iterated(turn):
        holder = turn.hold.see(now_seconds, turn.busy_seconds(now_seconds))
        if settings.policy.choose([*waiting, holder], now_seconds) != turn.hold.key:
            return MakeRoom(idle=False)
        quantum_ends_seconds = now_seconds + settings.quantum_seconds
    if idle_since_seconds is not None:
        return GoOn(idle_since_seconds + settings.idle_seconds, quantum_ends_seconds)
    again_seconds = max(now_seconds + settings.poll_seconds, _expected_boundary_seconds(turn))
    if quantum_ends_seconds > now_seconds:
        again_seconds = min(again_seconds, quantum_ends_seconds)
    return GoOn(again_seconds, quantum_ends_seconds)


def _has_iterated(turn: Turn) -> bool:
    """A turn lasts at least one iteration, so before that nothing but idleness ends it."""
    return any(
        session.page.inside or session.page.iterations > session.granted_iterations
        for session in turn.holders
    )


def _expected_boundary_seconds(turn: Turn) -> float:
    """Return when the iteration should end that the holder is in; nothing changes before that."""
    if turn.hold.counted is None:
        return 0.0
    last_seconds = max(session.page.boundary_ns for session in turn.holders) / NANOSECONDS
    return last_seconds + turn.hold.counted.iteration_seconds
