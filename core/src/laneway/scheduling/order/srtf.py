"""Shortest remaining time first: the least average JCT where durations are known and every job takes one GPU.

It needs ``Job.expected_seconds``. The remaining time of a waiting job stays constant and that of a running job shrinks, so
two jobs never preempt one another in turn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.order.by_position import ByPosition
from laneway.scheduling.order.policy import Pace, Rank
from laneway.scheduling.order.remaining import remaining_seconds, review_seconds

KNOWN, UNKNOWN = 0, 1
"""Queues."""


@dataclass(frozen=True, slots=True)
class SRTF(ByPosition):
    """Shortest remaining time first."""

    unknown_seconds: float = 0.0
    """The run time assumed for a job of unknown duration. 0: it goes after all known ones, by attained service, and preempts
    no job."""

    def __post_init__(self) -> None:
        if self.unknown_seconds < 0:
            raise ValueError(
                f"unknown_seconds is {self.unknown_seconds}: write a time above 0, or 0 for after all that are known"
            )

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return jobs of known duration by remaining time, then the others by attained service."""
        return {job.key: self._rank(job, now_seconds) for job in jobs}

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Whether the waiting job is known to have less remaining time."""
        return waiting.queue == KNOWN and (waiting.queue, waiting.position) < (
            running.queue,
            running.position,
        )

    def _rank(self, job: Job, now_seconds: float) -> Rank:
        runs = job.state is JobState.RUNNING
        expected_seconds = job.expected_seconds or self.unknown_seconds
        if expected_seconds <= 0:
            pace = Pace(0.0 if job.as_of_seconds is None else job.rate_gpus)
            return Rank(
                UNKNOWN, (job.service_gpu_seconds(now_seconds),), drifts=runs, pace=pace if runs else None
            )
        weight = self.weight(job)
        left = weight * remaining_seconds(expected_seconds, job.ran_seconds(now_seconds))
        if not runs:
            return Rank(KNOWN, (left,))
        until_seconds = review_seconds(job, expected_seconds, now_seconds)
        return Rank(
            KNOWN,
            (left,),
            until_seconds=until_seconds,
            drifts=True,
            pace=_pace(job, weight, expected_seconds, now_seconds),
        )

    def weight(self, job: Job) -> float:
        """Return the weight of a second of the job."""
        return 1.0


def _pace(job: Job, weight: float, expected_seconds: float, now_seconds: float) -> Pace:
    """Return the drift of a running job's remaining time: it shrinks until the estimate is reached, and grows afterwards."""
    if job.as_of_seconds is None:
        return Pace(0.0)
    reached_seconds = job.as_of_seconds + expected_seconds - job.executed_seconds
    return Pace(-weight, reached_seconds) if now_seconds < reached_seconds else Pace(weight)
