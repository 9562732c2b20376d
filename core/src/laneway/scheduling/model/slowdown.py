"""The bound on what a job loses to jobs that join it on its GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.scheduling.model.snapshot import Job

_ROUNDING = 1e-9


def least_speed_ratio(job: Job) -> float:
    """Return the speed that a job is to keep beside others; 1 is its speed alone on its GPUs.

    A share of s percent entitles to s percent of the GPU's time, so that part of its speed is what the bound applies to.
    """
    demand = job.demand
    share_percent = demand.share_percent
    if demand.memory_bytes is not None and job.placement:
        share_percent = job.placement[0].share_percent
    return (1 - demand.max_slowdown_ratio) * min(1.0, share_percent / 100)


def keep_their_speed(jobs: Sequence[Job], speed_ratios: Sequence[float]) -> bool:
    """Whether each job would keep the speed that it is to keep beside others. One that may lose nothing is not joined at all."""
    return all(
        job.demand.max_slowdown_ratio > 0 and ratio >= least_speed_ratio(job) - _ROUNDING
        for job, ratio in zip(jobs, speed_ratios, strict=True)
    )
