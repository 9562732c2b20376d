"""What an order policy answers: which job goes first."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from laneway.scheduling.snapshot import Job


class Pace(NamedTuple):
    """How a rank drifts that does so evenly."""

    per_second: float
    """By how much ``position[0]`` rises in a second; below 0 if it falls."""

    until_seconds: float = math.inf
    """How long it does; then the rank is asked for again, at the next decision."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A job's place in the order; the job with the smallest (queue, position, created, key) goes first."""

    queue: int
    position: tuple[float, ...]
    """Its place within the queue; of equal length for all jobs of one policy."""

    promoted: bool = False
    """It is in this queue because it waited long, not by its service."""

    until_seconds: float = math.inf
    """When time alone changes this rank: it is asked for again then, and a decision is due."""

    drifts: bool = False
    """It changes all the time (remaining time while the job runs): it is asked for again at every decision, and no
    decision is due because of it."""

    pace: Pace | None = None
    """How it drifts, if evenly and in ``position[0]`` alone: then it is asked for only at those decisions that depend on it."""


class OrderPolicy(Protocol):
    """Puts the jobs of equal priority in order. Pure: the same jobs and clock give the same ranks."""

    @property
    def relative(self) -> bool:
        """Whether a job's rank depends on the others. If so, ``ranks`` is asked for all jobs at every decision, else for
        those that have changed and those whose rank's time has come."""
        ...

    @property
    def preempts_by_queue(self) -> bool:
        """Whether ``may_preempt`` compares queues only, and says yes exactly where the waiting job's is the smaller."""
        ...

    @property
    def interval_seconds(self) -> float:
        """How long a decision stands at most while somebody waits; infinite where ``until_seconds`` says it all."""
        ...

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return the rank of each job, by key.

        Args:
            jobs: those to rank: all of them where the policy is ``relative``.
            cluster_gpus: how many GPUs the cluster has.
            now_seconds: the moment, on the clock of the jobs' times.
        """
        ...

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Whether a waiting job may take the GPUs of a running one of the same priority, which comes later in order."""
        ...

    def holds_up(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether a job that waits for room lets nobody pass on GPUs that it could use; else smaller jobs may."""
        ...
