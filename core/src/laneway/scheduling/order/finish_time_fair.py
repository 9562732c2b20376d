"""Finish-time fairness (Themis, NSDI'20, section 3.1): the job that sharing delays most goes first.

rho is a job's time in the shared cluster, from submission to end, over its time alone in an n-th of the cluster, for n jobs.
A job with rho of at most 1 has lost nothing by sharing; the policy serves the largest rho. GPUs are leased: a started job
keeps them for a lease, as in Themis.

Alone in an n-th of the cluster, a job that needs at most these GPUs takes its own time, and a larger one takes proportionally
longer (as in Gavel, OSDI'20, section 4.2). Themis auctions GPUs among the apps with the largest rho; here the order decides,
and gangs are not split.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.order.by_position import ByPosition
from laneway.scheduling.order.policy import Rank
from laneway.scheduling.order.remaining import demanded_gpus, remaining_seconds

_LEASED, _FREE = 0, 1


@dataclass(frozen=True, slots=True)
class FinishTimeFair(ByPosition):
    """The largest finish-time fairness rho goes first."""

    interval_seconds: float = 1200.0
    """The shortest time that a job keeps its GPUs. A preemption costs some 50 s (Tiresias, section 5; Lucid, section 2): 4
    percent of twenty minutes."""

    newcomer_seconds: float = 600.0
    """The least total run time assumed for a job of unknown duration; the assumption is twice its run time so far."""

    def __post_init__(self) -> None:
        for name in ("interval_seconds", "newcomer_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}: write a time above 0")

    @property
    def relative(self) -> bool:
        """Yes: each job's fair part of the cluster depends on the number of jobs."""
        return True

    def ranks(self, jobs: Collection[Job], cluster_gpus: int, now_seconds: float) -> Mapping[str, Rank]:
        """Return the jobs with a lease first, then the others by rho."""
        competing = sum(not job.state.is_releasing and not job.suspended for job in jobs)
        share_gpus = cluster_gpus / max(1, competing)
        return {job.key: self._rank(job, share_gpus, now_seconds) for job in jobs}

    def may_preempt(self, waiting: Rank, running: Rank) -> bool:
        """Whether the waiting job has the larger rho and the other's lease has ended."""
        return running.queue == _FREE and waiting.position < running.position

    def rho(self, job: Job, share_gpus: float, now_seconds: float) -> float:
        """Return the finish-time fairness of a job if it runs from now on.

        Args:
            job: any.
            share_gpus: an n-th of the cluster.
            now_seconds: the moment.
        """
        ran_seconds = job.ran_seconds(now_seconds)
        expected_seconds = job.expected_seconds or max(2 * ran_seconds, self.newcomer_seconds)
        left_seconds = remaining_seconds(expected_seconds, ran_seconds)
        shared_seconds = now_seconds - job.created_seconds + left_seconds
        slowdown = max(1.0, demanded_gpus(job) / share_gpus) if share_gpus else 1.0
        return shared_seconds / ((ran_seconds + left_seconds) * slowdown)

    def _rank(self, job: Job, share_gpus: float, now_seconds: float) -> Rank:
        position = (-self.rho(job, share_gpus, now_seconds),)
        if job.state is JobState.STARTING:
            return Rank(_LEASED, position, drifts=True)
        if job.state is JobState.RUNNING and job.started_seconds is not None:
            lease_end_seconds = job.started_seconds + self.interval_seconds
            if now_seconds < lease_end_seconds:
                return Rank(_LEASED, position, until_seconds=lease_end_seconds, drifts=True)
        return Rank(_FREE, position, drifts=True)
