"""What an order policy answers: which job goes first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from laneway.scheduling.snapshot import Job


@dataclass(frozen=True, slots=True)
class Rank:
    """A job's place in the order; the job with the smallest (queue, position, created, key) goes first."""

    queue: int
    position: tuple[float, ...]
    """Its place within the queue; of equal length for all jobs of one policy."""

    promoted: bool = False
    """It is in this queue because it waited long, not by its service."""


class OrderPolicy(Protocol):
    """Puts the jobs of equal priority in order. Pure: the same jobs and clock give the same ranks."""

    def ranks(self, jobs: Sequence[Job], now_seconds: float) -> Mapping[str, Rank]:
        """Return the rank of each job, by key."""
        ...

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Whether a waiting job may take the GPUs of a running one of the same priority, which comes later in order."""
        ...

    def holds_up(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether a job that waits for room lets nobody pass on GPUs that it could use; else smaller jobs may."""
        ...

    def next_change_seconds(self, job: Job, now_seconds: float) -> float | None:
        """Return when the job's rank changes though its state doesn't; None: never, as far as the job alone decides."""
        ...
