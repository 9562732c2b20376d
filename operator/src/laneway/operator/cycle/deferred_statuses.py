"""Statuses that can wait: only figures and sentences in them are new.

Steps in the life of a job are written at once. All else waits here until it is due and the write budget permits it; those that
have been due for longest come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from laneway.operator.config import CycleConfig
from laneway.operator.cycle.write_budget import WriteBudget
from laneway.operator.pacing import DEFERRED_AGAIN_SECONDS
from laneway.scheduling.state.timers import Timers


class DeferredStatuses:
    """Jobs with such statuses, by uid."""

    def __init__(self, config: CycleConfig) -> None:
        self._budget = WriteBudget(config)
        self._explanations = Timers()
        self._service = Timers()

    def defer_explanation(self, uid: str, due_seconds: float) -> None:
        """Write a job's new sentences or figures once they are due; the earliest moment counts."""
        self._explanations.hasten(uid, due_seconds)

    def defer_service(self, uid: str, due_seconds: float) -> None:
        """Write a job's attained service, if nothing else in its status is new, once it is due."""
        self._service.hasten(uid, due_seconds)

    def forget(self, uid: str) -> None:
        """Note that nothing is deferred for a job any more."""
        self._explanations.forget(uid)
        self._service.forget(uid)

    def take_explanations(
        self, starting: int, now_seconds: float, postponed: Callable[[str], bool]
    ) -> Iterator[str]:
        """Yield the jobs whose explanations may be written now.

        Args:
            starting: jobs with writes of a start in flight.
            now_seconds: Unix time.
            postponed: whether a job has nothing to be written yet. Such a job is looked at again later, at no cost to the budget.
        """
        while (uid := self._explanations.first_due(now_seconds)) is not None:
            if postponed(uid):
                self._explanations.put(uid, now_seconds + DEFERRED_AGAIN_SECONDS)
                continue
            if not self._budget.take_explanation(starting, now_seconds):
                return
            self._explanations.forget(uid)
            yield uid

    def take_service(self, starting: int, now_seconds: float) -> Iterator[str]:
        """Yield the jobs whose attained service may be written now."""
        while (uid := self._service.first_due(now_seconds)) is not None:
            if not self._budget.take_service(starting, now_seconds):
                return
            self._service.forget(uid)
            yield uid

    def due_seconds(self, now_seconds: float) -> float:
        """Return when an explanation needs a cycle. Attained service needs none: cycles run every few seconds anyway."""
        return max(self._explanations.next_seconds(), now_seconds + DEFERRED_AGAIN_SECONDS)
