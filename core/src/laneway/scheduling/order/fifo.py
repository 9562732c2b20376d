"""First in, first out: by the time of creation. Nobody makes way for a job of the same priority."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.scheduling.order.by_queue import ByQueue
from laneway.scheduling.order.policy import Rank
from laneway.scheduling.snapshot import Job


@dataclass(frozen=True, slots=True)
class Fifo(ByQueue):
    """By creation."""

    strict: bool = True
    """Nobody passes a job that waits for room, as in YARN's capacity scheduler and Tiresias' simulator. False: whoever
    fits may, which uses more of the GPUs and lets large gangs wait longer."""

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return one queue, ordered by creation."""
        return {job.key: Rank(0, (job.created_seconds,)) for job in jobs}

    def holds_up(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether the policy is strict."""
        return self.strict
