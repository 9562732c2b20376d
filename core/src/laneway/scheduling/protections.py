"""Which running jobs may not be preempted yet, and when that ends."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator

from laneway.scheduling.views import Level


class Protections:
    """Jobs that are protected for some time, by who could take their GPUs after it."""

    def __init__(self) -> None:
        self._heaps: dict[Level, list[tuple[float, str]]] = defaultdict(list)
        self._of: dict[str, tuple[Level, float]] = {}

    def protect(self, key: str, level: Level, until_seconds: float) -> None:
        """Note until when a job is protected, and at what level it can be preempted then."""
        if self._of.get(key) != (level, until_seconds):
            self._of[key] = (level, until_seconds)
            heapq.heappush(self._heaps[level], (until_seconds, key))

    def release(self, key: str) -> None:
        """Note that a job needs no protection any more."""
        self._of.pop(key, None)

    def ended(self, now_seconds: float) -> set[str]:
        """Return the jobs whose protection has come to its end, and forget them."""
        ended = set()
        for level, heap in list(self._current()):
            while heap and heap[0][0] <= now_seconds:
                top = heapq.heappop(heap)
                if self._valid(level, top):
                    ended.add(top[1])
                    del self._of[top[1]]
        return ended

    def next_seconds(self, waiting: Level | None) -> float:
        """Return when the first protection of a job ends that a waiting one of this level could preempt then.

        None stands for a level to which every job has to make way. Infinite: there is no such job.
        """
        return min(
            (heap[0][0] for level, heap in self._current() if waiting is None or level > waiting),
            default=math.inf,
        )

    def _current(self) -> Iterator[tuple[Level, list[tuple[float, str]]]]:
        """Yield the heaps whose first item is valid; drop those that have none."""
        for level in list(self._heaps):
            heap = self._heaps[level]
            while heap and not self._valid(level, heap[0]):
                heapq.heappop(heap)
            if heap:
                yield level, heap
            else:
                del self._heaps[level]

    def _valid(self, level: Level, item: tuple[float, str]) -> bool:
        return self._of.get(item[1]) == (level, item[0])
