"""FAIR: the session with the least service over its weight is next (Salus, MLSys'20, section 3.4.2; weights are ours).

A session that joins, or comes back after it was away, starts from the least service over weight of those that are
active: without that, it would run alone until it had caught up with what the others had in all the time before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.turns.policy import SessionView


@dataclass(frozen=True, slots=True)
class Fair:
    """Equal service for equal weights."""

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Lift the newcomer to the least service of the active; never lower it."""
        floor = min((session.gpu_seconds / session.weight for session in active), default=0.0)
        return max(newcomer.gpu_seconds, floor * newcomer.weight)

    def choose(self, waiting: Iterable[SessionView], now_seconds: float) -> str | None:
        """Return who has the least service over weight; of equals, who waits longest."""
        ranks = [
            (session.gpu_seconds / session.weight, session.waiting_since_seconds, session.key)
            for session in waiting
        ]
        return min(ranks)[-1] if ranks else None
