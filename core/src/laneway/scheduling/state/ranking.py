"""The rank of each job, kept from one cycle to the next.

The order policy computes a rank again when the job changes or the rank's time comes. A rank that drifts, or depends on other
jobs, is computed in every cycle; one that drifts at a known pace, only when it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from laneway.scheduling.fairness.claims import NO_CLAIM, Claim
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.order.policy import OrderPolicy, Pace, Rank
from laneway.scheduling.state.timers import Timers

SortKey = tuple[int, int, tuple[float, ...], float, str]
"""(-priority, queue, position, created, key): jobs in rising order go first; the last item names the job."""


FIRST = -1
"""The queue of jobs that go first because they are owed time, or run ahead of their equals: before all queues of the policies."""

ClaimOf = Callable[[Job, float], Claim]
"""Returns the claim of a job at a moment."""


class Ranking:
    """The ranks of all jobs, and their claims to go first."""

    def __init__(self, policy: OrderPolicy, claim_of: ClaimOf | None = None) -> None:
        """Begin without jobs.

        Args:
            policy: gives each job its rank.
            claim_of: whether a job goes first, at any rank; None: no job does.
        """
        self.ranks: dict[str, Rank] = {}
        self.sort_keys: dict[str, SortKey] = {}
        """Both as of the last computation; for drifting jobs see :meth:`refresh_drifting`."""

        self.first_until: dict[str, float] = {}
        """Of the jobs that go first: until when, if nothing else changes."""

        self.promoted: set[str] = set()
        self.drifting: set[str] = set()
        """Jobs whose ranks are computed in every cycle."""

        self.requeued: set[str] = set()
        """Jobs that are new or have changed queues; its reader empties it."""

        self._policy = policy
        self._claim_of = claim_of
        self._changed: set[str] = set()
        self._paced: set[str] = set()
        self._changes = Timers()
        self._turns = Timers()
        """When the paces of ranks end."""

    def set_policy(self, policy: OrderPolicy) -> None:
        """Have another policy rank all jobs from now on."""
        self._policy = policy
        self._changed |= self.ranks.keys()

    def change(self, key: str) -> None:
        """Note that a job is new or has changed."""
        self._changed.add(key)

    def forget(self, key: str) -> None:
        """Remove a job."""
        for members in (self._changed, self.drifting, self._paced, self.promoted, self.requeued):
            members.discard(key)
        self._changes.forget(key)
        self._turns.forget(key)
        self.first_until.pop(key, None)
        self.ranks.pop(key, None)
        self.sort_keys.pop(key, None)

    def pace(self, key: str) -> Pace | None:
        """Return the pace at which a rank drifts; None: it does not, or at no known pace."""
        return self.ranks[key].pace if key in self._paced else None

    def reclaim(self, keys: Iterable[str], jobs: Mapping[str, Job], now_seconds: float) -> None:
        """Update the claims of jobs whose guarantee has changed. That is cheaper than their ranks, and seldom moves them."""
        for key in keys:
            rank = self.ranks.get(key)
            was_first = key in self.first_until
            claim = self._claim(jobs[key], now_seconds)
            if rank is None or claim.first is not was_first:
                self.change(key)
            else:
                self._changes.put(key, min(rank.until_seconds, claim.until_seconds))

    def refresh(self, jobs: Mapping[str, Job], cluster_gpus: int, now_seconds: float) -> set[str]:
        """Update all ranks except those that drift at a known pace; return the jobs whose place may have changed.

        Args:
            jobs: all jobs, by key.
            cluster_gpus: how many GPUs the cluster has.
            now_seconds: the moment.
        """
        moved = self._changed
        moved |= self.drifting
        moved |= self._changes.pop_due(now_seconds)
        moved |= self._turns.pop_due(now_seconds)
        self._changed = set()
        if self._policy.relative:
            moved &= jobs.keys()
            moved |= self._ask(jobs.values(), cluster_gpus, now_seconds)
        elif moved:
            moved = {key for key in moved if key in jobs}
            self._ask([jobs[key] for key in moved], cluster_gpus, now_seconds)
        return moved

    def refresh_drifting(
        self, keys: Iterable[str], jobs: Mapping[str, Job], cluster_gpus: int, now_seconds: float
    ) -> None:
        """Update the ranks that drift at a known pace; for the arguments see :meth:`refresh`."""
        paced = [jobs[key] for key in keys if key in self._paced]
        if paced:
            self._ask(paced, cluster_gpus, now_seconds)

    def next_seconds(self, now_seconds: float) -> float:
        """Return when the first rank changes by itself; infinite: none does."""
        due_seconds = self._changes.next_seconds()
        return max(due_seconds, math.nextafter(now_seconds, math.inf))

    def _ask(self, wanted: Iterable[Job], cluster_gpus: int, now_seconds: float) -> set[str]:
        """Compute ranks; return the jobs whose place changed."""
        moved = set()
        jobs = list(wanted)
        ranks = self._policy.ranks(jobs, cluster_gpus, now_seconds)
        for job in jobs:
            key = job.key
            rank = ranks[key]
            claim = self._claim(job, now_seconds)
            queue = FIRST if claim.first else rank.queue
            place = (-job.priority, queue, rank.position, job.created_seconds, key)
            if self.sort_keys.get(key) != place:
                self.sort_keys[key] = place
                moved.add(key)
            self._note(key, rank, claim)
        return moved

    def _claim(self, job: Job, now_seconds: float) -> Claim:
        if self._claim_of is None:
            return NO_CLAIM
        claim = self._claim_of(job, now_seconds)
        if claim.first:
            self.first_until[job.key] = claim.until_seconds
        else:
            self.first_until.pop(job.key, None)
        return claim

    def _note(self, key: str, rank: Rank, claim: Claim) -> None:
        before = self.ranks.get(key)
        if before is None or before.queue != rank.queue:
            self.requeued.add(key)
        self.ranks[key] = rank
        even = rank.pace is not None and not self._policy.preempts_by_queue
        _keep(self.promoted, key, rank.promoted)
        _keep(self._paced, key, rank.drifts and even)
        _keep(self.drifting, key, rank.drifts and not even)
        self._changes.put(key, min(rank.until_seconds, claim.until_seconds))
        self._turns.put(key, math.inf if rank.pace is None or not even else rank.pace.until_seconds)


def _keep(members: set[str], key: str, belongs: bool) -> None:
    (members.add if belongs else members.discard)(key)
