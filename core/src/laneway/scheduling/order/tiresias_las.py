"""Discretised two-dimensional least attained service (Tiresias, NSDI'19, section 3.2).

A job's service is its GPUs times the time that it has executed, so nobody has to say how long it will run. A few queues
by service keep jobs of like service from preempting one another back and forth. Within a queue, jobs that run come first,
by start; those that wait follow, by arrival. A job that has waited long against what it has executed goes back to the
first queue (the paper's PromoteKnob), and from there on its service counts anew.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.order.policy import Rank
from laneway.scheduling.snapshot import Job, JobState


@dataclass(frozen=True, slots=True)
class TiresiasLAS:
    """Least attained service first, in queues."""

    thresholds_gpu_seconds: tuple[float, ...] = (3250.0, 7200.0)
    """Service at which a job falls into the next queue: the first and second limit of Tiresias' own simulator."""

    promotion_factor: float = 8.0
    """A job that has waited this many times what it has executed is promoted; 0: never. Tiresias' and Voda's 8."""

    patience_seconds: float = 86_400.0
    """A job in the first queue that has waited so long is passed by nobody on GPUs that it could use; 0: always may
    others pass. Tiresias lets small jobs pass a large gang for ever; a day is long against the wait that a promotion
    leads to, so this is for gangs that smaller jobs would starve."""

    def __post_init__(self) -> None:
        limits = self.thresholds_gpu_seconds
        if any(limit <= 0 for limit in limits) or list(limits) != sorted(set(limits)):
            raise ValueError(
                f"thresholds_gpu_seconds is {list(limits)}: write GPU-seconds above 0, each larger than the one before"
            )
        if self.promotion_factor < 0:
            raise ValueError(
                f"promotion_factor is {self.promotion_factor}: write 0 for never, or a number above 0"
            )
        if self.patience_seconds < 0:
            raise ValueError(
                f"patience_seconds is {self.patience_seconds}: write 0 for no end, or a time above 0"
            )

    def ranks(self, jobs: Sequence[Job], now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's queue, and its place there."""
        return {job.key: self._rank(job, now_seconds) for job in jobs}

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Only out of a lower queue."""
        return waiting.queue < running.queue

    def holds_up(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether the job is in the first queue and its patience has come to its end."""
        return rank.queue == 0 and 0 < self.patience_seconds <= job.waited_seconds(now_seconds)

    def next_change_seconds(self, job: Job, now_seconds: float) -> float | None:
        """Return when a running job's service reaches the next threshold, or a waiting job is promoted.

        The end of a job's patience is no such moment: from then on, less happens.
        """
        queue = self._queue_by_service(job)
        if job.state is JobState.RUNNING and queue < len(self.thresholds_gpu_seconds):
            rate = sum(worker.share_percent * len(worker.gpus) for worker in job.placement) / 100
            return now_seconds + (self.thresholds_gpu_seconds[queue] - _service(job)) / rate
        if (
            job.state is JobState.WAITING
            and queue
            and self.promotion_factor
            and not self._promoted(job, now_seconds)
        ):
            left_seconds = self.promotion_factor * job.executed_seconds - job.waited_seconds(now_seconds)
            return now_seconds + left_seconds
        return None

    def _rank(self, job: Job, now_seconds: float) -> Rank:
        queue = self._queue_by_service(job)
        waits = job.state is JobState.WAITING
        promoted = queue > 0 and self._promoted(job, now_seconds)
        since = job.created_seconds if waits or job.started_seconds is None else job.started_seconds
        return Rank(0 if promoted else queue, (float(waits), since), promoted)

    def _queue_by_service(self, job: Job) -> int:
        return bisect_right(self.thresholds_gpu_seconds, _service(job))

    def _promoted(self, job: Job, now_seconds: float) -> bool:
        if not self.promotion_factor or job.state is not JobState.WAITING:
            return False
        return job.waited_seconds(now_seconds) >= self.promotion_factor * job.executed_seconds


def _service(job: Job) -> float:
    """The service that counts: what the job has had since it was last promoted."""
    return job.attained_service_gpu_seconds - job.service_at_promotion_gpu_seconds
