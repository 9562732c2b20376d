"""FAIR: the session with the least service over its weight is next (Salus, MLSys'20, section 3.4.2; weights are ours).

Service is counted in whole quanta, and who has had as many as another waits in line: sessions of equal weight have their turns in
rounds. A turn ends with an iteration, so it lasts longer than its quantum; what it lasts beyond is taken from the session's next turn
(surplus round robin; Adiseshu et al., SIGCOMM'96, section 3). So at the end of a round sessions of equal weight have had the same
service but for an iteration, and at any other time but for a quantum and an iteration.

A session that joins, or comes back after it was away, starts from the least service over weight of those that are
active: without that, it would run alone until it had caught up with what the others had in all the time before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.turns.policy import SessionView

_ROUNDING_QUANTA = 1e-6
"""Sums of times that make a whole number of quanta may fall short of it by so much."""


@dataclass(frozen=True, slots=True)
class Fair:
    """Equal service for equal weights."""

    quantum_seconds: float = 0.0
    """What a turn is to last; 0: service is counted as it is, and no turn is shortened."""

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Lift the newcomer to the least service of the active; never lower it."""
        floor = min((session.gpu_seconds / session.weight for session in active), default=0.0)
        return max(newcomer.gpu_seconds, floor * newcomer.weight)

    def choose(self, waiting: Iterable[SessionView], now_seconds: float) -> str | None:
        """Return who has had the fewest quanta over weight; of equals, who waits longest."""
        if not self.quantum_seconds:
            ranks = [
                (each.gpu_seconds / each.weight, each.waiting_since_seconds, each.key) for each in waiting
            ]
        else:
            per_second = 1 / self.quantum_seconds
            ranks = [
                (
                    int(each.gpu_seconds * per_second + _ROUNDING_QUANTA) / each.weight,
                    each.waiting_since_seconds,
                    each.key,
                )
                for each in waiting
            ]
        return min(ranks)[-1] if ranks else None

    def surplus_seconds(self, session: SessionView) -> float:
        """Return what it has had beyond whole quanta."""
        if not self.quantum_seconds:
            return 0.0
        quanta = session.gpu_seconds / self.quantum_seconds + _ROUNDING_QUANTA
        return max(0.0, quanta % 1.0 - _ROUNDING_QUANTA) * self.quantum_seconds
