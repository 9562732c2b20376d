"""SRTF: the session with the shortest remaining time is next (Salus, MLSys'20, section 3.4.2).

It has the best mean completion time if remaining times are known. They are known for a script that reports its remaining
iterations. The other sessions follow, the least attained service first, because most jobs that have run briefly are short
(Tiresias, NSDI'19, section 3.2). Wrap it in a starvation bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.turns.policy import SessionView


@dataclass(frozen=True, slots=True)
class ShortestRemaining:
    """Shortest remaining time first; sessions of unknown remaining time come last, by attained service."""

    @property
    def promises_shares(self) -> bool:
        """Shorter jobs come first, whatever their weights."""
        return False

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Service counts unchanged: the lane's other sessions do not matter here."""
        return newcomer.gpu_seconds

    def turn_quanta(self, session: SessionView, mean_weight: float) -> float:
        """Each turn is a quantum."""
        return 1.0

    def choose(
        self, waiting: Iterable[SessionView], now_seconds: float, mean_weight: float = 0.0
    ) -> str | None:
        """Return the session with the least remaining service; on a tie, the one that arrived first."""
        best = min(waiting, key=_rank, default=None)
        return None if best is None else best.key


def _rank(session: SessionView) -> tuple[bool, float, float, str]:
    known = session.remaining_seconds is not None
    seconds = session.attained_seconds if session.remaining_seconds is None else session.remaining_seconds
    return not known, seconds, session.arrived_seconds, session.key
