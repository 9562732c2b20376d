"""Discretised two-dimensional least attained service (Tiresias, NSDI'19, section 3.2).

A job's service is its GPUs times its executed time, so run times need not be known. A few queues by service keep jobs of like
service from preempting one another back and forth. Within a queue, jobs that run come first, by start; those that wait
follow, by arrival. A job whose waiting time is long relative to its executed time returns to the first queue (the paper's
PromoteKnob), and its service then counts from 0.

The defaults are those of the policy ``dlas-gpu`` of Tiresias' own simulator, for comparison with it: no promotion, so a
stream of newcomers may starve a job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.order.by_queue import ByQueue
from laneway.scheduling.order.policy import Rank
from laneway.scheduling.order.service_queues import arrival_within_queue, check, queue_place


@dataclass(frozen=True, slots=True)
class TiresiasLAS(ByQueue):
    """Least attained service first, in queues."""

    thresholds_gpu_seconds: tuple[float, ...] = (3250.0, 7200.0)
    """Service at which a job falls into the next queue: the first and second limit of Tiresias' own simulator."""

    promotion_factor: float = 0.0
    """A job that has waited this many times what it has executed is promoted; 0: never. Voda uses 8."""

    patience_seconds: float = 0.0
    """A job in the first queue that has waited this long is not passed on GPUs that it could use; 0: others may always pass.
    In Tiresias, small jobs may pass a large gang indefinitely. A day is long compared with the wait before a promotion, and
    protects gangs from starvation by smaller jobs."""

    def __post_init__(self) -> None:
        check(self.thresholds_gpu_seconds, self.promotion_factor)
        if self.patience_seconds < 0:
            raise ValueError(
                f"patience_seconds is {self.patience_seconds}: write 0 for no end, or a time above 0"
            )

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return each job's queue, and its place there."""
        return {job.key: self._rank(job, now_seconds) for job in jobs}

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether the job is in the first queue and has waited longer than its patience."""
        return rank.queue == 0 and 0 < self.patience_seconds <= job.waited_seconds(now_seconds)

    def _rank(self, job: Job, now_seconds: float) -> Rank:
        stands = queue_place(job, self.thresholds_gpu_seconds, self.promotion_factor, now_seconds)
        return Rank(stands.queue, arrival_within_queue(job), stands.promoted, stands.until_seconds)
