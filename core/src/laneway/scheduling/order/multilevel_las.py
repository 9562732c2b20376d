"""Least attained service in many queues, with a cap on the running time that counts (Laneway's own; job lengths are not known).

Most jobs are short, and a job's expected remaining time grows with its age. So the job with the least service goes first, and
more queues are better (Tiresias, NSDI'19, has two or three of them; multilevel feedback in Nuyens and Wierman, Performance
Evaluation 65, 2008). This holds only for some hours: the remaining jobs train for days, and if they took turns, all of them
would finish late. So at most ``runtime_cap_seconds`` of a job's running time count. Long jobs keep their order of arrival,
adjusted by width, because a gang of four times the width delays four times as many jobs.

Width and time together are the service of Tiresias' two-dimensional LAS; queues are ``queue_ratio`` times as wide each as the one
before. Within a queue, jobs that run come first, by start; those that wait follow, by arrival. They are preempted only by jobs of an
earlier queue, so two jobs never take turns preempting each other.

Waiting is bounded by the fair share that every job is guaranteed (:mod:`laneway.scheduling.fairness`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.order.by_queue import ByQueue
from laneway.scheduling.order.policy import Rank
from laneway.scheduling.order.service_queues import PAUSED

_SLACK = 1e-3
"""The rounding error, in seconds or GPU-seconds, of a sum of floats against the announced time."""

_FIRST = 0


@dataclass(frozen=True, slots=True)
class MultilevelLAS(ByQueue):
    """Least attained service first, in queues of growing width, with a cap on the running time that counts."""

    first_threshold_gpu_seconds: float = 2000.0
    """Service at which a job leaves the first queue: a few minutes of a node with 8 GPUs, as for a trial run."""

    queue_ratio: float = 2.5
    """The ratio of the ends of consecutive queues. Between 2 and 4 the average completion time hardly changes; a smaller
    ratio causes more preemptions."""

    runtime_cap_seconds: float = 14_400.0
    """At most this much of a job's running time counts. Between 3 and 5 hours it makes no difference; use more to distinguish
    jobs of a day from jobs of a week."""

    fair_share: bool = True
    """Whether a job that has had much less than its fair share of the time goes first for a while."""

    def __post_init__(self) -> None:
        for name in ("first_threshold_gpu_seconds", "runtime_cap_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: write a number above 0")
        if not 1 < self.queue_ratio < math.inf:
            raise ValueError(f"queue_ratio is {self.queue_ratio}: write a number above 1")

    @property
    def bounds_waiting(self) -> bool:
        """Whether jobs are guaranteed a fair share."""
        return self.fair_share

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's queue, and its place there."""
        return {job.key: self._rank(job, now_seconds) for job in jobs}

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """No: smaller jobs may always pass, except on GPUs that are kept for a job that is owed time."""
        return False

    def _rank(self, job: Job, now_seconds: float) -> Rank:
        waits = job.state is JobState.WAITING or job.state in PAUSED
        since = job.created_seconds if waits or job.started_seconds is None else job.started_seconds
        until_seconds = self._threshold_at(job, now_seconds) if job.state is JobState.RUNNING else math.inf
        return Rank(self._queue(job, now_seconds), (float(waits), since), until_seconds=until_seconds)

    def _queue(self, job: Job, now_seconds: float) -> int:
        counted = (
            min(job.service_gpu_seconds(now_seconds), self.runtime_cap_seconds * _width_gpus(job)) + _SLACK
        )
        if counted < self.first_threshold_gpu_seconds:
            return _FIRST
        queue = _FIRST + 1 + int(math.log(counted / self.first_threshold_gpu_seconds, self.queue_ratio))
        # The logarithm may be off by its last bit; the queue must not be.
        return queue - (counted < self._threshold(queue - 1)) + (counted >= self._threshold(queue))

    def _threshold(self, queue: int) -> float:
        """Return the service at which a queue ends."""
        return self.first_threshold_gpu_seconds * self.queue_ratio ** (queue - _FIRST)

    def _threshold_at(self, job: Job, now_seconds: float) -> float:
        """Return when a running job leaves its queue."""
        threshold = self._threshold(self._queue(job, now_seconds))
        if not job.rate_gpus or threshold > self.runtime_cap_seconds * _width_gpus(job):
            return math.inf
        # Computed from when the service was counted, not from now, so that the result is always the same float.
        counted_seconds = now_seconds if job.as_of_seconds is None else job.as_of_seconds
        return counted_seconds + (threshold - job.attained_service_gpu_seconds) / job.rate_gpus


def _width_gpus(job: Job) -> float:
    """Return the GPUs that a job holds while it runs, in fractions if its share is known."""
    return job.demand.gpus * job.demand.share_percent / 100
