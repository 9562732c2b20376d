"""Where each job stands in the order, kept from one decision to the next.

A rank is asked for anew when its job has changed, when its time has come, or, where it drifts or depends on other jobs,
at every decision.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping

from laneway.scheduling.order.policy import OrderPolicy, Rank
from laneway.scheduling.snapshot import Job

SortKey = tuple[int, int, tuple[float, ...], float, str]
"""(-priority, queue, position, created, key): jobs in rising order go first; the last item names the job."""


class Standings:
    """The ranks of all jobs."""

    def __init__(self, policy: OrderPolicy) -> None:
        self.ranks: dict[str, Rank] = {}
        self.keys: dict[str, SortKey] = {}
        self.promoted: set[str] = set()
        self._policy = policy
        self._changed: set[str] = set()
        self.drifting: set[str] = set()
        self._timers: list[tuple[float, str]] = []

    def change(self, key: str) -> None:
        """Note that a job is new or has changed."""
        self._changed.add(key)

    def forget(self, key: str) -> None:
        """Note that a job is no longer there."""
        self._changed.discard(key)
        self.drifting.discard(key)
        self.promoted.discard(key)
        self.ranks.pop(key, None)
        self.keys.pop(key, None)

    def refresh(self, jobs: Mapping[str, Job], cluster_gpus: int, now_seconds: float) -> set[str]:
        """Bring all ranks up to date; return the jobs whose place in the order may have changed.

        Args:
            jobs: all jobs, by key.
            cluster_gpus: how many GPUs the cluster has.
            now_seconds: the moment.
        """
        asked = self._changed | self.drifting | self._due(now_seconds)
        self._changed = set()
        wanted = jobs.values() if self._policy.relative else [jobs[key] for key in asked]
        moved = set(asked) & jobs.keys()
        for key, rank in self._policy.ranks(wanted, cluster_gpus, now_seconds).items():
            job = jobs[key]
            place = (-job.priority, rank.queue, rank.position, job.created_seconds, key)
            if self.keys.get(key) != place:
                self.keys[key] = place
                moved.add(key)
            self._note(key, rank)
        return moved

    def next_seconds(self, now_seconds: float) -> float:
        """Return when the first rank changes by itself; infinite: none does."""
        while self._timers and not self._valid(*self._timers[0]):
            heapq.heappop(self._timers)
        if not self._timers:
            return math.inf
        return max(self._timers[0][0], math.nextafter(now_seconds, math.inf))

    def _note(self, key: str, rank: Rank) -> None:
        before = self.ranks.get(key)
        self.ranks[key] = rank
        (self.promoted.add if rank.promoted else self.promoted.discard)(key)
        (self.drifting.add if rank.drifts else self.drifting.discard)(key)
        if math.isfinite(rank.until_seconds) and (
            before is None or before.until_seconds != rank.until_seconds
        ):
            heapq.heappush(self._timers, (rank.until_seconds, key))

    def _due(self, now_seconds: float) -> set[str]:
        due = set()
        while self._timers and self._timers[0][0] <= now_seconds:
            at, key = heapq.heappop(self._timers)
            if self._valid(at, key):
                due.add(key)
        return due

    def _valid(self, at_seconds: float, key: str) -> bool:
        rank = self.ranks.get(key)
        return rank is not None and rank.until_seconds == at_seconds
