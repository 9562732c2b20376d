"""FAIR: the session with the least service over its weight is next (Salus, MLSys'20, section 3.4.2; weights are ours).

Service is counted in whole quanta, and sessions with the same number wait in line, so sessions of equal weight take turns in
rounds. A turn ends with an iteration, so it exceeds its quantum; the excess is deducted from the session's next turn (surplus
round robin; Adiseshu et al., SIGCOMM'96, section 3). At the end of a round, the services of sessions of equal weight differ
by at most an iteration, and at any other time by at most a quantum and an iteration.

A session that joins or returns starts from the least service over weight of the active sessions. Otherwise it would run alone
until it had caught up with all the service of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.turns.policy import SessionView

_ROUNDING_QUANTA = 1e-6
"""The rounding error of sums of times that make up a whole number of quanta."""


@dataclass(frozen=True, slots=True)
class Fair:
    """Gives equal service for equal weights."""

    quantum_seconds: float = 0.0
    """The intended duration of a turn; 0: service is not rounded, and no turn is shortened."""

    @property
    def promises_shares(self) -> bool:
        """Each session is promised its weight's part of the time."""
        return True

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Raise the newcomer's service to the least of the active sessions; never lower it."""
        floor = min((session.gpu_seconds / session.weight for session in active), default=0.0)
        return max(newcomer.gpu_seconds, floor * newcomer.weight)

    def choose(self, waiting: Iterable[SessionView], now_seconds: float) -> str | None:
        """Return the session with the fewest quanta over weight; on a tie, the one that has waited longest."""
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
        """Return its service beyond whole quanta."""
        if not self.quantum_seconds:
            return 0.0
        quanta = session.gpu_seconds / self.quantum_seconds + _ROUNDING_QUANTA
        return max(0.0, quanta % 1.0 - _ROUNDING_QUANTA) * self.quantum_seconds
