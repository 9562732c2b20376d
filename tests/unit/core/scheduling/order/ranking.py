"""The order of a few jobs under a policy: ``order_by(SRTF(), knows(a_job("a"), 50))``."""

from __future__ import annotations

from dataclasses import replace

from laneway.scheduling import Job
from laneway.scheduling.order.policy import OrderPolicy, Rank

from tests.unit.core.scheduling.builders import NOW, JobBuilder

CLUSTER_GPUS = 8


def knows(job: JobBuilder, seconds: float) -> JobBuilder:
    """It is known to run so long in all."""
    return JobBuilder(replace(job.made, expected_seconds=seconds))


def sort_key(job: Job, rank: Rank) -> tuple[int, tuple[float, ...], float, str]:
    """What the planner sorts jobs of one priority by."""
    return (rank.queue, rank.position, job.created_seconds, job.key)


def order_by(policy: OrderPolicy, *jobs: JobBuilder, gpus: int = CLUSTER_GPUS, now: float = NOW) -> list[str]:
    """The keys of the jobs, first the one that goes first."""
    made = [job.made for job in jobs]
    ranks = policy.ranks(made, gpus, now)
    return [job.key for job in sorted(made, key=lambda job: sort_key(job, ranks[job.key]))]


def preempts(policy: OrderPolicy, waiting: JobBuilder, running: JobBuilder, *others: JobBuilder) -> bool:
    """Whether one job may take the GPUs of another, in a cluster of 8."""
    ranks = policy.ranks([job.made for job in (waiting, running, *others)], CLUSTER_GPUS, NOW)
    return policy.may_preempt(ranks[waiting.made.key], ranks[running.made.key])
