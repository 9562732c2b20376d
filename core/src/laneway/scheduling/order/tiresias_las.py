"""Discretised two-dimensional least attained service (Tiresias, NSDI'19, section 3.2).

A job's service is its GPUs times the time that it has executed, so nobody has to say how long it will run. A few queues
by service keep jobs of like service from preempting one another back and forth. Within a queue, jobs that run come first,
by start; those that wait follow, by arrival. A job that has waited long against what it has executed goes back to the
first queue (the paper's PromoteKnob), and from there on its service counts anew.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Mapping
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

    @property
    def relative(self) -> bool:
        """No: a job's own service decides."""
        return False

    @property
    def preempts_by_queue(self) -> bool:
        """Jobs of one queue don't preempt one another."""
        return True

    @property
    def interval_seconds(self) -> float:
        """Every change of a rank is announced."""
        return math.inf

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's queue, and its place there."""
        return {job.key: self._rank(job, now_seconds) for job in jobs}

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Only out of a lower queue."""
        return waiting.queue < running.queue

    def holds_up(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether the job is in the first queue and its patience has come to its end."""
        return rank.queue == 0 and 0 < self.patience_seconds <= job.waited_seconds(now_seconds)

    def _rank(self, job: Job, now_seconds: float) -> Rank:
        service = job.service_gpu_seconds(now_seconds) - job.service_at_promotion_gpu_seconds
        queue = bisect_right(self.thresholds_gpu_seconds, service)
        waits = job.state is JobState.WAITING
        since = job.created_seconds if waits or job.started_seconds is None else job.started_seconds
        position = (float(waits), since)
        if waits and queue and self.promotion_factor:
            left_seconds = self.promotion_factor * job.executed_seconds - job.waited_seconds(now_seconds)
            if left_seconds <= 0:
                return Rank(0, position, promoted=True)
            return Rank(queue, position, until_seconds=now_seconds + left_seconds)
        return Rank(queue, position, until_seconds=self._demotion_seconds(job, queue, service, now_seconds))

    def _demotion_seconds(self, job: Job, queue: int, service: float, now_seconds: float) -> float:
        """Return when a running job's service reaches the next threshold."""
        if not job.rate_gpus or queue == len(self.thresholds_gpu_seconds):
            return math.inf
        return now_seconds + (self.thresholds_gpu_seconds[queue] - service) / job.rate_gpus
