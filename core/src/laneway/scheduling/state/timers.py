"""One timer for each job."""

from __future__ import annotations

import heapq
import math
from typing import Final

_STALE_ENTRIES: Final = 64
"""Fewer stale entries are not worth a rebuild."""


class Timers:
    """Due times by job; a new one replaces the one before."""

    def __init__(self) -> None:
        self._at: dict[str, float] = {}
        """The last due time, past or not: one that has passed is not set again."""

        self._heap: list[tuple[float, str]] = []

    def put(self, key: str, at_seconds: float) -> None:
        """Set a job's timer; infinite: none."""
        if self._at.get(key) != at_seconds:
            self._at[key] = at_seconds
            if at_seconds < math.inf:
                heapq.heappush(self._heap, (at_seconds, key))
                self._drop_stale_entries()

    def hasten(self, key: str, at_seconds: float) -> None:
        """Set a job's timer, unless it is set to an earlier time."""
        if at_seconds < self._at.get(key, math.inf):
            self.put(key, at_seconds)

    def forget(self, key: str) -> None:
        """Forget a job."""
        self._at.pop(key, None)

    def _drop_stale_entries(self) -> None:
        """Keep the heap below about twice the number of jobs: replaced due times far in the future would otherwise remain in
        it."""
        if len(self._heap) > 2 * len(self._at) + _STALE_ENTRIES:
            live = {(at_seconds, key) for at_seconds, key in self._heap if self._at.get(key) == at_seconds}
            self._heap = list(live)
            heapq.heapify(self._heap)

    def pop_due(self, now_seconds: float) -> set[str]:
        """Return the jobs whose timers have expired since the last call."""
        due = set()
        while self._heap and self._heap[0][0] <= now_seconds:
            at_seconds, key = heapq.heappop(self._heap)
            if self._at.get(key) == at_seconds:
                due.add(key)
        return due

    def first_due(self, now_seconds: float) -> str | None:
        """Return the job whose timer expired first; it stays so until it is forgotten or set again. None: none has expired."""
        return self._heap[0][1] if self.next_seconds() <= now_seconds else None

    def next_seconds(self) -> float:
        """Return the next due time; infinite: there is none."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf
