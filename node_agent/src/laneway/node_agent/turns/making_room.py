"""When the holder of a turn should make room, given that somebody else waits for its lane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from laneway.lanes.turns import SessionView
from laneway.node_agent.turns.session import NANOSECONDS
from laneway.node_agent.turns.settings import TurnSettings
from laneway.node_agent.turns.turn import Turn


@dataclass(frozen=True, slots=True)
class MakeRoom:
    """Now."""

    idle: bool
    """Because the lane lies idle, not because the quantum is over."""

    heir: str
    """Whom the policy prefers."""


@dataclass(frozen=True, slots=True)
class GoOn:
    """Not yet."""

    look_again_seconds: float
    quantum_ends_seconds: float
    leaves_seconds: float | None = None
    """From when on the holder is to leave at a boundary, as far as can be said now; None: not known, or said before."""

    heir: str = ""
    """Whom the policy will prefer then."""


def judge(
    turn: Turn, waiting: Callable[[], list[SessionView]], settings: TurnSettings, now_seconds: float
) -> MakeRoom | GoOn:
    """Say whether the holder makes room now, or when to look again.

    It makes room when it has been between iterations for a while, and when its quantum is over and the policy prefers
    one of those that wait. If the policy prefers the holder, it gets another quantum. A turn lasts at least one
    iteration: by the time that the shortest of turns is looked at, its holder is inside one, or idle.

    That its quantum will end is known before: the holder is told when, leaves by itself, and need not be looked at for that.

    Args:
        turn: the holder's.
        waiting: asks who waits; only where that matters.
        settings: of the GPU.
        now_seconds: the time.
    """
    over_seconds = max(turn.quantum_ends_seconds, turn.began_seconds + settings.idle_seconds)
    if now_seconds <= turn.began_seconds:
        # It begins at once, as a rule: nothing is to be seen for a while.
        heir = _heir(turn, waiting(), settings, over_seconds)
        look_seconds = turn.began_seconds + settings.poll_seconds
        if heir:
            return GoOn(_with_others(look_seconds, settings), turn.quantum_ends_seconds, over_seconds, heir)
        return GoOn(min(over_seconds, look_seconds), turn.quantum_ends_seconds)
    idle_since_seconds = turn.idle_since_seconds(now_seconds)
    if idle_since_seconds is not None and now_seconds >= idle_since_seconds + settings.idle_seconds:
        return MakeRoom(idle=True, heir=settings.policy.choose(waiting(), now_seconds) or "")
    quantum_ends_seconds = turn.quantum_ends_seconds
    if now_seconds >= over_seconds:
        heir = _heir(turn, waiting(), settings, now_seconds)
        if heir:
            return MakeRoom(idle=False, heir=heir)
        quantum_ends_seconds = now_seconds + settings.quantum_seconds
    leaves_seconds, heir = None, ""
    if turn.leaves_seconds is None or turn.leaves_seconds < quantum_ends_seconds:
        leaves_seconds = max(quantum_ends_seconds, over_seconds)
        heir = _heir(turn, waiting(), settings, leaves_seconds)
    if idle_since_seconds is not None:
        look_seconds = idle_since_seconds + settings.idle_seconds
    else:
        again_seconds = max(
            now_seconds + settings.poll_seconds, _expected_boundary_seconds(turn, now_seconds)
        )
        # Whatever the holder says of its iterations, it is looked at when its quantum ends; a little later where it may have left by then.
        patience_seconds = settings.poll_seconds if heir or turn.leaves_seconds is not None else 0.0
        latest_seconds = max(quantum_ends_seconds + patience_seconds, now_seconds + settings.poll_seconds)
        look_seconds = min(again_seconds, latest_seconds)
        if patience_seconds:
            look_seconds = _with_others(look_seconds, settings)
    return GoOn(look_seconds, quantum_ends_seconds, leaves_seconds if heir else None, heir)


def _heir(turn: Turn, waiting: list[SessionView], settings: TurnSettings, at_seconds: float) -> str:
    """Return whom the policy prefers to the holder if that goes on until then; empty: nobody."""
    holder = turn.hold.see(at_seconds, turn.charge_seconds(at_seconds))
    preferred = settings.policy.choose([*waiting, holder], at_seconds)
    return "" if preferred is None or preferred == holder.key else preferred


def _with_others(look_seconds: float, settings: TurnSettings) -> float:
    """Return when to look at a holder that leaves by itself: together with those of other lanes, because each time costs a wake-up."""
    return ceil(look_seconds / settings.poll_seconds) * settings.poll_seconds


def _expected_boundary_seconds(turn: Turn, now_seconds: float) -> float:
    """Return when the iteration should end that the holder is in; nothing changes before that."""
    if turn.hold.counted is None:
        return 0.0
    last_seconds = max(session.page.boundary_ns for session in turn.holders) / NANOSECONDS
    return min(last_seconds, now_seconds) + turn.hold.counted.iteration_seconds
