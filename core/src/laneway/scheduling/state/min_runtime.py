"""The running jobs that may not be preempted yet, because they have not run for the minimum time."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterator

from laneway.scheduling.gpus.views import Level


class MinRuntimes:
    """Jobs within their minimum run time, by level."""

    def __init__(self) -> None:
        self._heaps: dict[Level, list[tuple[float, str]]] = defaultdict(list)
        self._of: dict[str, tuple[Level, float]] = {}

    def protect(self, key: str, level: Level, until_seconds: float) -> None:
        """Protect a job until a moment; after that, jobs of smaller levels can preempt it."""
        if self._of.get(key) != (level, until_seconds):
            self._of[key] = (level, until_seconds)
            heapq.heappush(self._heaps[level], (until_seconds, key))

    def release(self, key: str) -> None:
        """End a job's protection."""
        self._of.pop(key, None)

    def ended(self, now_seconds: float) -> set[str]:
        """Return the jobs whose protection has ended, and forget them."""
        ended = set()
        for level, heap in list(self._current()):
            while heap and heap[0][0] <= now_seconds:
                top = heapq.heappop(heap)
                if self._valid(level, top):
                    ended.add(top[1])
                    del self._of[top[1]]
        return ended

    def next_seconds(self, waiting: Level | None) -> float:
        """Return when the first job becomes preemptible for a waiting job of this level.

        None stands for a level that may preempt every job. Infinite: there is no such job.
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
