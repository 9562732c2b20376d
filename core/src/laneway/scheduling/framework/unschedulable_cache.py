"""Remembers from cycle to cycle which jobs did not fit, for as long as nothing can have changed that.

When a job finds no place, neither on idle GPUs nor by preemption, its equivalence class is rejected from its place in the
order on. A rejection is dropped

- when GPUs or memory become free, or jobs that share GPUs turn out to be faster or slower (all rejections are dropped);
- when a job becomes preemptible for a rejected one;
- when the job that blocked it no longer does;
- when a cycle preempts for a job before it: the rest of the freed GPUs may be enough for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.plan import WaitingReason
from laneway.scheduling.state.ranking import SortKey
from laneway.scheduling.state.scheduler_state import NewlyPreemptible, SchedulerState
from laneway.scheduling.state.waiting_queue import EquivalenceClass


@dataclass(slots=True)
class Rejection:
    """Why no job of an equivalence class, from a place in the order on, can start."""

    sort_key: SortKey
    reason: WaitingReason | None
    """None: computed when a plan asks for it."""

    blocks_later_jobs: bool = False


class UnschedulableCache:
    """The rejected equivalence classes, and the jobs that block those after them."""

    def __init__(self, state: SchedulerState) -> None:
        self.rejections: dict[EquivalenceClass, Rejection] = {}
        self.blocked_from: dict[GPUClass, SortKey] = {}
        """By class of GPUs: the job that no later job may pass there."""

        self.all_blocked_from: SortKey | None = None
        """The job that no later job may pass anywhere: every class of GPUs is blocked."""

        self._state = state
        self._stamp: tuple[int, int, int] | None = None
        """The state's counters when the rejections were made; None: they are not valid any more."""

    def must_try(self, equivalence_class: EquivalenceClass, sort_key: SortKey) -> bool:
        """Whether a job of a class is worth a try."""
        rejection = self.rejections.get(equivalence_class)
        return rejection is None or sort_key < rejection.sort_key

    def reject(
        self,
        equivalence_class: EquivalenceClass,
        sort_key: SortKey,
        reason: WaitingReason | None,
        *,
        blocks_later_jobs: bool = False,
    ) -> None:
        """Remember that jobs of a class, from a place in the order on, do not fit."""
        self.rejections[equivalence_class] = Rejection(sort_key, reason, blocks_later_jobs)

    def blocks_later_jobs(self, sort_key: SortKey, now_seconds: float) -> bool:
        """Whether no later job may pass this one if it finds no place."""
        key = sort_key[-1]
        order = self._state.policies.order
        return order.blocks_later_jobs(self._state.jobs[key], self._state.ranking.ranks[key], now_seconds)

    def block(self, classes: Iterable[GPUClass], sort_key: SortKey) -> None:
        """Let no later job pass on GPUs of these classes."""
        for each in classes:
            self.blocked_from.setdefault(each, sort_key)
        if len(self.blocked_from) == len(self._state.allocations.usable_classes):
            self.all_blocked_from = max(self.blocked_from.values())

    def is_blocked(self, sort_key: SortKey) -> bool:
        """Whether a job comes after one that no job may pass anywhere."""
        return self.all_blocked_from is not None and self.all_blocked_from < sort_key

    def blocker(self, classes: Iterable[GPUClass]) -> SortKey | None:
        """Return the first job that blocks one of these classes of GPUs."""
        if not self.blocked_from:  # as nearly always
            return None
        return min((at for each in classes if (at := self.blocked_from.get(each))), default=None)

    def review(self, now_seconds: float, *, something_stops: bool) -> None:
        """Drop the rejections that may not hold any more.

        Args:
            now_seconds: the moment.
            something_stops: whether this cycle stops jobs for reasons of their own.
        """
        state = self._state
        exposed = self._newly_exposed()
        if (
            something_stops
            or self._stamp != self._current_stamp()
            or state.policies.order.relative
            or state.ranking.drifting
            or state.preemptible.comes_later
            or any(self.rejections[each].blocks_later_jobs for each in exposed)
            or any(self._starts_to_block(*each, now_seconds) for each in self.rejections.items())
            or self._newcomer_blocks(now_seconds)
        ):
            self.rejections.clear()
            self.blocked_from.clear()
            self.all_blocked_from = None
        for each in exposed:
            self.rejections.pop(each, None)
        if len(self.rejections) > 2 * len(state.queue.members) + 16:  # most have no waiting job any more
            self.rejections = {
                each: rejection for each, rejection in self.rejections.items() if each in state.queue.members
            }

    def reopen_after(
        self, sort_key: SortKey, classes: Iterable[EquivalenceClass]
    ) -> list[tuple[SortKey, int, EquivalenceClass]]:
        """Drop the rejections of those classes whose first rejected job comes after a place in the order.

        Returns:
            For each of them the sort key of that job, its position in the class, and the class.
        """
        reopened = []
        for each in classes:
            members, first = self._first_rejected(each)
            if first < len(members) and sort_key < members[first]:
                del self.rejections[each]
                reopened.append((members[first], first, each))
        return reopened

    def end_cycle(self, *, valid: bool) -> None:
        """Keep the rejections for the next cycle, or mark them as outdated by what this cycle does."""
        self._stamp = self._current_stamp() if valid else None

    def _current_stamp(self) -> tuple[int, int, int]:
        state = self._state
        return (
            state.allocations.frees,
            state.departures if self.blocked_from else -1,
            state.speeds.version,
        )

    def _newly_exposed(self) -> list[EquivalenceClass]:
        """Return the rejected classes with a job that may preempt another one which it could not preempt before."""
        newly_preemptible = self._state.take_newly_preemptible()
        if not newly_preemptible:
            return []
        found = []
        for each in self.rejections:
            members, first = self._first_rejected(each)
            if first < len(members) and any(
                self._may_preempt(members[first], victim) for victim in newly_preemptible
            ):
                found.append(each)
        return found

    def _first_rejected(self, equivalence_class: EquivalenceClass) -> tuple[Sequence[SortKey], int]:
        """Return the waiting jobs of a class, and the position of the first rejected one."""
        members = self._state.queue.members.get(equivalence_class)
        rejection = self.rejections.get(equivalence_class)
        if members is None or rejection is None:
            return (), 0
        return members, bisect_left(members, rejection.sort_key)

    def _may_preempt(self, sort_key: SortKey, victim: NewlyPreemptible) -> bool:
        before, after = victim
        if self._state.policies.order.preempts_by_queue:
            return sort_key[:2] < after[:2] and (before is None or before[:2] <= sort_key[:2])
        return sort_key < after and (before is None or before <= sort_key)

    def _newcomer_blocks(self, now_seconds: float) -> bool:
        """Whether a job to be tried may block some that were rejected before it came."""
        last = max((rejection.sort_key for rejection in self.rejections.values()), default=None)
        return last is not None and any(
            sort_key < last
            and self.must_try(equivalence_class, sort_key)
            and self.blocks_later_jobs(sort_key, now_seconds)
            for sort_key, equivalence_class in self._state.queue.heads()
        )

    def _starts_to_block(
        self, equivalence_class: EquivalenceClass, rejection: Rejection, now_seconds: float
    ) -> bool:
        """Whether the first job of a rejected class blocks later ones now, and did not when it was rejected."""
        members = self._state.queue.members.get(equivalence_class)
        if members is None or rejection.reason is not None or rejection.blocks_later_jobs:
            return False
        return self.blocks_later_jobs(members[0], now_seconds)
