"""SRTF: the session with the shortest remaining time is next (Salus, MLSys'20, section 3.4.2).

Its mean completion time is the best where remaining times are known. They are known of a script that says how many
iterations are left; the others come after those, the least attained first, because most jobs that have run for short are
short (Tiresias, NSDI'19, section 3.2). A starvation bound belongs around it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.turns.policy import SessionView


@dataclass(frozen=True, slots=True)
class ShortestRemaining:
    """The shortest remaining time first; sessions of which it is not known come last, by attained service."""

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Service of the lane plays no role here: it counts as it is."""
        return newcomer.gpu_seconds

    def surplus_seconds(self, session: SessionView) -> float:
        """Each turn has its whole quantum."""
        return 0.0

    def choose(self, waiting: Iterable[SessionView], now_seconds: float) -> str | None:
        """Return who has the least to do; of equals, who arrived first."""
        best = min(waiting, key=_rank, default=None)
        return None if best is None else best.key


def _rank(session: SessionView) -> tuple[bool, float, float, str]:
    known = session.remaining_seconds is not None
    seconds = session.attained_seconds if session.remaining_seconds is None else session.remaining_seconds
    return not known, seconds, session.arrived_seconds, session.key
