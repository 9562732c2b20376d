"""When something is to be looked at again, one moment for each job."""

from __future__ import annotations

import heapq
import math


class Timers:
    """Moments by job; a new one replaces the one before."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        """The last that was set, whether it has come or not: one that has come is not set again."""

        self._heap: list[tuple[float, str]] = []

    def put(self, key: str, at_seconds: float) -> None:
        """Set a job's moment; infinite: none."""
        if self._at.get(key) != at_seconds:
            self._at[key] = at_seconds
            if at_seconds < math.inf:
                heapq.heappush(self._heap, (at_seconds, key))

    def forget(self, key: str) -> None:
        """Forget a job."""
        self._at.pop(key, None)

    def take_due(self, now_seconds: float) -> set[str]:
        """Return the jobs whose moment has come since this was called last."""
        due = set()
        while self._heap and self._heap[0][0] <= now_seconds:
            at_seconds, key = heapq.heappop(self._heap)
            if self._at.get(key) == at_seconds:
                due.add(key)
        return due

    def next_seconds(self) -> float:
        """Return the first moment that has not come yet; infinite: there is none."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf
