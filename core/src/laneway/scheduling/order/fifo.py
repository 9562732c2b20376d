"""First in, first out: by the time of creation. Jobs of one priority never preempt one another."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.order.by_queue import ByQueue
from laneway.scheduling.order.policy import Rank


@dataclass(frozen=True, slots=True)
class Fifo(ByQueue):
    """By creation."""

    strict: bool = True
    """No job passes a waiting one, as in YARN's capacity scheduler and Tiresias' simulator. False: jobs that fit may pass;
    more GPUs are used, and large gangs wait longer."""

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return one queue, ordered by creation."""
        return {job.key: Rank(0, (job.created_seconds,)) for job in jobs}

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether the policy is strict."""
        return self.strict
