"""The order in which a cycle takes the jobs: paused ones, and the first of each equivalence class that is worth a try."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from laneway.scheduling.framework.unschedulable_cache import UnschedulableCache
from laneway.scheduling.state.ranking import SortKey
from laneway.scheduling.state.scheduler_state import SchedulerState
from laneway.scheduling.state.waiting_queue import EquivalenceClass


class Head(NamedTuple):
    """The job whose turn it is."""

    sort_key: SortKey
    position: int
    """Among the waiting jobs of its class."""

    equivalence_class: EquivalenceClass | None
    """None: a paused job."""

    @property
    def key(self) -> str:
        """The job's key."""
        return self.sort_key[-1]


class CycleQueue:
    """Heads by sort key."""

    def __init__(self, state: SchedulerState, cache: UnschedulableCache) -> None:
        self._state = state
        self._cache = cache
        self._rejected_before = list(cache.rejections)
        """Classes that the cycle does not try, because an earlier one found no place for them."""

        self._heap = [
            Head(sort_key, 0, equivalence_class)
            for sort_key, equivalence_class in state.queue.heads()
            if cache.must_try(equivalence_class, sort_key)
        ]
        self._heap += [Head(state.ranking.sort_keys[key], 0, None) for key in state.paused]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def pop(self) -> Head:
        """Take the job that goes first."""
        return heapq.heappop(self._heap)

    def push_next(self, head: Head) -> None:
        """Add the job that follows another one of its class, if there is one."""
        assert head.equivalence_class is not None
        members = self._state.queue.members[head.equivalence_class]
        position = head.position + 1
        if position < len(members):
            heapq.heappush(self._heap, Head(members[position], position, head.equivalence_class))

    def retry_rejected_after(self, sort_key: SortKey) -> None:
        """Add the classes rejected before this cycle, from a place in the order on; once a cycle."""
        if self._rejected_before:
            for found in self._cache.reopen_after(sort_key, self._rejected_before):
                heapq.heappush(self._heap, Head(*found))
            self._rejected_before = []

    def paused(self) -> Iterator[str]:
        """Yield the paused jobs that have not had their turn."""
        return (head.key for head in self._heap if head.equivalence_class is None)
