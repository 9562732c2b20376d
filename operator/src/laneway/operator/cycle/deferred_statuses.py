"""Statuses that can wait: only figures and sentences in them are new.

Steps in the life of a job are written at once. All else waits here until it is due and the allowance permits it; those that
have been due for longest come first. With a few jobs, all statuses are written within seconds; with thousands, they do not keep
the API server busy. While many jobs start, the allowance is lower: one such write costs the API server as much as creating two
pods. And no more are in flight than can be saved up: where the API server is slower than the allowance, steps would wait behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from laneway.operator.pacing import (
    DEFERRED_AGAIN_SECONDS,
    EXPLANATIONS_RATIO_WHILE_MANY_START,
    MANY_STARTS,
)
from laneway.scheduling.config.operator_config import CycleConfig
from laneway.scheduling.state.timers import Timers


class Allowance:
    """A number a second, saved up for some seconds."""

    def __init__(self, per_second: float, saved_seconds: float) -> None:
        self._per_second = per_second
        self.maximum = max(1.0, per_second * saved_seconds)
        """The most that may be taken at once."""

        self._left = self.maximum
        self._counted_seconds = 0.0

    def take(self, now_seconds: float) -> bool:
        """Return whether a write may be made now, and count it if so."""
        gained = max(0.0, now_seconds - self._counted_seconds) * self._per_second
        self._left = min(self.maximum, self._left + gained)
        self._counted_seconds = now_seconds
        if self._left < 1:
            return False
        self._left -= 1
        return True


class DeferredStatuses:
    """Jobs with such statuses, by uid."""

    def __init__(self, config: CycleConfig) -> None:
        per_second, saved_seconds = float(config.explanations_per_second), config.explain_seconds
        self._allowance = Allowance(per_second, saved_seconds)
        self._while_many_start = Allowance(per_second * EXPLANATIONS_RATIO_WHILE_MANY_START, saved_seconds)
        self._due = Timers()
        self._taken: set[str] = set()
        """Jobs whose writes may still be in flight."""

    def defer(self, uid: str, due_seconds: float) -> None:
        """Write a job's new sentences or figures once they are due; the earliest moment counts."""
        self._due.hasten(uid, due_seconds)

    def forget(self, uid: str) -> None:
        """Note that nothing is deferred for a job any more."""
        self._due.forget(uid)

    def take(
        self,
        starting: int,
        in_flight: Collection[str],
        now_seconds: float,
        postponed: Callable[[str], bool],
    ) -> Iterator[str]:
        """Yield the jobs whose statuses may be written now.

        Args:
            starting: jobs with writes of a start in flight.
            in_flight: jobs with any writes in flight.
            now_seconds: Unix time.
            postponed: whether a job has nothing to be written yet. Such a job is looked at again later, at no cost to the
                allowance.
        """
        allowance = self._allowance if starting <= MANY_STARTS else self._while_many_start
        self._taken.intersection_update(in_flight)
        while (uid := self._due.first_due(now_seconds)) is not None:
            if postponed(uid):
                self._due.put(uid, now_seconds + DEFERRED_AGAIN_SECONDS)
                continue
            if len(self._taken) >= self._allowance.maximum or not allowance.take(now_seconds):
                return
            self._taken.add(uid)
            self._due.forget(uid)
            yield uid

    def due_seconds(self, now_seconds: float) -> float:
        """Return when a deferred status needs a cycle."""
        return max(self._due.next_seconds(), now_seconds + DEFERRED_AGAIN_SECONDS)
