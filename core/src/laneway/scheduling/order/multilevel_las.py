"""Least attained service in many queues, with a cap on the running time that counts (Laneway's own; job lengths are not known).

Most jobs are short, and the longer one has run, the longer it will go on: so the one with the least service goes first, and the more
queues there are, the better (Tiresias, NSDI'19, has two or three of them; multilevel feedback in Nuyens and Wierman, Performance
Evaluation 65, 2008). That ends after some hours: those that are left are trainings that run for days, and to have them take turns
would only have all of them finish late. So at most ``runtime_cap_seconds`` of a job's running time count: the long ones
keep the order in which they came, apart from their width, because a gang that is four times as wide holds up four times as many.

Width and time together are the service of Tiresias' two-dimensional LAS; queues are ``queue_ratio`` times as wide each as the one
before. Within a queue, jobs that run come first, by start; those that wait follow, by arrival. They are preempted only by jobs of an
earlier queue, so two jobs never take turns preempting each other.

Waiting is bounded: a job that has waited ``promotion_seconds`` in all is lifted by a queue, by another after twice as long, and so on,
up to a queue before the first, where it may preempt all others and no job passes it on GPUs that it could use. So who waits long
overtakes at first only those that will run for as long; lifted to the front at once, the many that wait for weeks in a cluster with
too much work would keep all short jobs out.
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
"""Seconds, or GPU-seconds, by which a sum of floats may fall short of the moment that was announced."""

_FRONT = -1
_FIRST = 0


@dataclass(frozen=True, slots=True)
class MultilevelLAS(ByQueue):
    """Least attained service first, in queues of growing width, with a cap on the running time that counts."""

    first_threshold_gpu_seconds: float = 2000.0
    """Service at which a job leaves the first queue; a few minutes of a node of 8 GPUs, what a trial run takes."""

    queue_ratio: float = 2.5
    """Each queue ends at so many times the service at which the one before it did. Between 2 and 4 the average completion time hardly
    changes; the smaller, the more preemptions."""

    runtime_cap_seconds: float = 14_400.0
    """At most this much of a job's running time counts. Between 3 and 5 hours it makes no difference; where jobs of a day
    are to be distinguished from those of a week, more."""

    promotion_seconds: float = 2_592_000.0
    """A job that has waited so long in all is lifted by a queue, and again after 3, 7, 15, ... times as long; 0: never. On Muri's traces,
    which have up to five times as much work as GPUs, 30 days lengthen the average completion time by 0 to 16 %, 10 days by 3 to 26 %."""

    def __post_init__(self) -> None:
        for name in ("first_threshold_gpu_seconds", "runtime_cap_seconds"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name} is {getattr(self, name)}: write a number above 0")
        if not 1 < self.queue_ratio < math.inf:
            raise ValueError(f"queue_ratio is {self.queue_ratio}: write a number above 1")
        if not self.promotion_seconds >= 0:
            raise ValueError(f"promotion_seconds is {self.promotion_seconds}: write 0 for never, or a time")

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's queue, and its place there."""
        return {job.key: self._rank(job, now_seconds) for job in jobs}

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether the job has been lifted before the first queue."""
        return rank.queue == _FRONT

    def _rank(self, job: Job, now_seconds: float) -> Rank:
        waits = job.state is JobState.WAITING or job.state in PAUSED
        since = job.created_seconds if waits or job.started_seconds is None else job.started_seconds
        queue = self._queue(job, now_seconds)
        lifts = self._lifts(job, now_seconds)
        if job.state is JobState.RUNNING:
            until_seconds = self._threshold_at(job, now_seconds)
        else:
            until_seconds = self._lift_at(job, lifts + 1) if lifts < queue - _FRONT else math.inf
        return Rank(max(_FRONT, queue - lifts), (float(waits), since), until_seconds=until_seconds)

    def _lifts(self, job: Job, now_seconds: float) -> int:
        """Return by how many queues a job is lifted: one after ``promotion_seconds``, another after twice as many more, and so on."""
        if not self.promotion_seconds:
            return 0
        waited_seconds = now_seconds - job.created_seconds - job.ran_seconds(now_seconds) + _SLACK
        return int(max(0.0, waited_seconds) // self.promotion_seconds + 1).bit_length() - 1

    def _lift_at(self, job: Job, lifts: int) -> float:
        """Return when a job that goes on waiting is lifted for the so-manieth time."""
        if not self.promotion_seconds:
            return math.inf
        return job.created_seconds + job.executed_seconds + self.promotion_seconds * ((1 << lifts) - 1)

    def _queue(self, job: Job, now_seconds: float) -> int:
        counted = (
            min(job.service_gpu_seconds(now_seconds), self.runtime_cap_seconds * _width_gpus(job)) + _SLACK
        )
        if counted < self.first_threshold_gpu_seconds:
            return _FIRST
        queue = _FIRST + 1 + int(math.log(counted / self.first_threshold_gpu_seconds, self.queue_ratio))
        # The logarithm is off by a last bit; the queue is not.
        return queue - (counted < self._threshold(queue - 1)) + (counted >= self._threshold(queue))

    def _threshold(self, queue: int) -> float:
        """Return the service at which a queue ends."""
        return self.first_threshold_gpu_seconds * self.queue_ratio ** (queue - _FIRST)

    def _threshold_at(self, job: Job, now_seconds: float) -> float:
        """Return when a running job leaves its queue."""
        threshold = self._threshold(self._queue(job, now_seconds))
        if not job.rate_gpus or threshold > self.runtime_cap_seconds * _width_gpus(job):
            return math.inf
        # From when the service was counted, not from now: so the moment is the same float whenever it is asked for.
        counted_seconds = now_seconds if job.as_of_seconds is None else job.as_of_seconds
        return counted_seconds + (threshold - job.attained_service_gpu_seconds) / job.rate_gpus


def _width_gpus(job: Job) -> float:
    """Return the GPUs that a job holds while it runs; a part of one counts as that, where it is known."""
    return job.demand.gpus * job.demand.share_percent / 100
