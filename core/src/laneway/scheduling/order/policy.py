"""The protocol of order policies: which job goes first, and which may preempt which."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, runtime_checkable

from laneway.scheduling.model.past_services import PastServices
from laneway.scheduling.model.snapshot import Job


class Pace(NamedTuple):
    """The constant drift of a rank."""

    per_second: float
    """The change of ``position[0]`` per second."""

    until_seconds: float = math.inf
    """When the drift ends; the rank is computed again in the next cycle."""


@dataclass(frozen=True, slots=True)
class Rank:
    """A job's place in the order; the job with the smallest (queue, position, created, key) goes first."""

    queue: int
    position: tuple[float, ...]
    """Its place within the queue; a policy's positions all have the same length."""

    promoted: bool = False
    """It is in this queue because it waited long, not by its service."""

    until_seconds: float = math.inf
    """When time alone changes this rank: it is then computed again, and a cycle is due."""

    drifts: bool = False
    """Whether it changes continuously, such as the remaining time of a running job: it is computed in every cycle, and makes
    no cycle due."""

    pace: Pace | None = None
    """Its drift, if constant and in ``position[0]`` alone: it is computed only in cycles that depend on it."""


@dataclass(frozen=True, slots=True)
class RoundJob:
    """A job that may run in the next round."""

    job: Job
    gpus: float
    """GPUs that it holds while it runs, in fractions for shares."""

    per_second: Mapping[str, float]
    """Its speed by GPU model, of those that it can use; where it is not known, as fast as on average."""

    held_model: str = ""
    """The model of the GPUs that it holds; empty: it holds none, or GPUs of several models."""


@runtime_checkable
class AssignsModels(Protocol):
    """An order policy that says on which GPU model a job runs, round by round."""

    @property
    def round_seconds(self) -> float:
        """The length of a round."""
        ...

    @property
    def reallocate_seconds(self) -> float:
        """The shortest time between two calls of :meth:`targets` after jobs have come or gone."""
        ...

    def targets(
        self, jobs: Sequence[RoundJob], gpus: Mapping[str, float]
    ) -> Mapping[str, Mapping[str, float]]:
        """Return by job the part of the time that it is to have on each GPU model.

        Args:
            jobs: all that may run; at least one.
            gpus: the number of GPUs by model.
        """
        ...

    def model_order(self, jobs: Sequence[RoundJob], gpus: Mapping[str, float]) -> Sequence[str]:
        """Return the models in the order in which a round fills their GPUs; arguments as for :meth:`targets`."""
        ...


class OrderPolicy(Protocol):
    """Puts the jobs of equal priority in order. Pure: the same jobs and clock give the same ranks."""

    @property
    def relative(self) -> bool:
        """Whether a job's rank depends on other jobs. If so, every cycle computes the ranks of all jobs; else only those that
        have changed or are due."""
        ...

    @property
    def preempts_by_queue(self) -> bool:
        """Whether ``may_preempt`` compares queues only, and is true exactly if the waiting job's queue is smaller."""
        ...

    @property
    def bounds_waiting(self) -> bool:
        """Whether a job that has had much less than its fair share of the time goes first for a while, at any rank
        (:mod:`laneway.scheduling.fairness`). Needs ``preempts_by_queue``."""
        ...

    @property
    def interval_seconds(self) -> float:
        """The longest time between two cycles while a job waits; infinite where ``until_seconds`` covers every change."""
        ...

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return the rank of each job, by key.

        Args:
            jobs: those to rank: all of them where the policy is ``relative``.
            cluster_gpus: how many GPUs the cluster has.
            now_seconds: the current time, on the clock of the jobs' times.
        """
        ...

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Whether a waiting job may take the GPUs of a running one of the same priority, which comes later in order."""
        ...

    def blocks_later_jobs(self, job: Job, rank: Rank, now_seconds: float) -> bool:
        """Whether no later job may pass this waiting job on GPUs that it could use; else smaller jobs may."""
        ...


@runtime_checkable
class LearnsServices(Protocol):
    """An order policy that reads the services of jobs that have ended."""

    @property
    def learns(self) -> bool:
        """Whether it does, with its parameters."""
        ...

    def informed(self, past: PastServices) -> Self:
        """Return this policy with other services of ended jobs."""
        ...
