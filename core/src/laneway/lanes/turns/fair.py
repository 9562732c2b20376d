"""FAIR: the session with the least service over its weight is next (Salus, MLSys'20, section 3.4.2; weights are ours).

Sessions take turns in rounds, and a turn's length is in proportion to the session's weight (deficit round robin; Shreedhar &
Varghese, SIGCOMM'95, section 3). A round of n active sessions takes n quanta. So each session has a turn in each round,
however small its weight, and there are as many turns in a second as with equal lengths. Service is counted in whole turns, and
sessions with the same number wait in line.

A turn ends with an iteration, so it exceeds its length; the excess is deducted from the session's next turn (surplus
round robin; Adiseshu et al., SIGCOMM'96, section 3). At the end of a round, the services of sessions of equal weight differ
by at most an iteration.

A session's *lag* is what its share of the time would have yielded, less the service that it has had (Stoica et al., RTSS'96,
section 2). While sessions stay active, with a share f and a turn's length r = f·n quanta,

    -(1 - f)·(r + own iteration)  <  lag  <  (1 - f)·r + f·(sum of the others' iterations).

So in any time t its service exceeds f·t less the difference of the two bounds. From the beginning of one of its turns to that of
another it exceeds f·t - (1 - f)·(r + own iteration) - f·(sum of the others' iterations), because at the beginning of a turn a
session has at most an iteration too much.

A session that joins or returns starts from the least service over weight of the active sessions. Otherwise it would run alone
until it had caught up with all the service of the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.turns.policy import SessionView

_ROUNDING_TURNS = 1e-6
"""The rounding error of sums of times that make up a whole number of turns."""


@dataclass(frozen=True, slots=True)
class Fair:
    """Gives equal service for equal weights."""

    quantum_seconds: float = 0.0
    """The mean length of turns; 0: service is not rounded, and each turn is one iteration."""

    @property
    def promises_shares(self) -> bool:
        """Each session is promised its weight's part of the time."""
        return True

    def enter(self, newcomer: SessionView, active: Iterable[SessionView]) -> float:
        """Raise the newcomer's service to the least of the active sessions; never lower it."""
        floor = min((session.gpu_seconds / session.weight for session in active), default=0.0)
        return max(newcomer.gpu_seconds, floor * newcomer.weight)

    def choose(
        self, waiting: Iterable[SessionView], now_seconds: float, mean_weight: float = 0.0
    ) -> str | None:
        """Return the session with the fewest turns' worth of service; on a tie, the one that has waited longest."""
        sessions = tuple(waiting)
        if not sessions:
            return None
        if not self.quantum_seconds:
            return min((s.gpu_seconds / s.weight, s.waiting_since_seconds, s.key) for s in sessions)[-1]
        # Turns are counted in the length that they have. With the mean weight of those who are compared, often not all who want
        # the lane, turns of another length would be counted, and a session could pass others that are before it in line.
        mean_weight = mean_weight or sum([s.weight for s in sessions]) / len(sessions)
        per_second = mean_weight / self.quantum_seconds
        ranks = [
            (
                int(each.gpu_seconds / each.weight * per_second + _ROUNDING_TURNS),
                each.waiting_since_seconds,
                each.key,
            )
            for each in sessions
        ]
        return min(ranks)[-1]

    def turn_quanta(self, session: SessionView, mean_weight: float) -> float:
        """Return its part of a round, less the excess of its earlier turns."""
        whole_quanta = session.weight / mean_weight
        if not self.quantum_seconds:
            return whole_quanta
        turns = session.gpu_seconds / (self.quantum_seconds * whole_quanta) + _ROUNDING_TURNS
        return (1.0 - max(0.0, turns % 1.0 - _ROUNDING_TURNS)) * whole_quanta
