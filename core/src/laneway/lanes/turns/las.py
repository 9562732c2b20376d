"""LAS: least attained service first, discretised (Tiresias, NSDI'19, section 3.2, applied inside a GPU).

A session starts in the first queue and goes down one when its attained service reaches the queue's threshold. A session of a
higher queue is always next; within a queue it is first come, first served. The queues keep sessions of similar service from
preempting each other all the time, as under plain least attained service. Wrap it in a starvation bound.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from laneway.lanes.turns.policy import SessionView


@dataclass(frozen=True, slots=True)
class LeastAttained:
    """Queues by attained service, first come first served within a queue."""

    thresholds_seconds: tuple[float, ...] = (60.0, 3600.0)
    """Attained service at which a session leaves the first queue, the second, and so on; there is one more queue than
    thresholds. An interactive trial of a minute stays ahead of all trainings; a job of an hour yields to newer ones."""

    def __post_init__(self) -> None:
        rising = all(lower < upper for lower, upper in pairwise((0.0, *self.thresholds_seconds)))
        if not self.thresholds_seconds or not rising:
            raise ValueError(
                f"thresholds_seconds is {list(self.thresholds_seconds)}: write one time or more, above 0 and rising"
            )

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
        """Return the first arrival in the highest queue that has sessions."""
        best = min(
            waiting,
            key=lambda session: (
                bisect_right(self.thresholds_seconds, session.attained_seconds),
                session.arrived_seconds,
                session.key,
            ),
            default=None,
        )
        return None if best is None else best.key
