"""The remaining run time of a job of known duration, and its number of GPUs."""

from __future__ import annotations

from laneway.scheduling.model.snapshot import Job, held_gpus

_SLACK_SECONDS = 1e-3
"""The rounding error of a sum of floats; without it, a review that is due could seem not to be."""


def remaining_seconds(expected_seconds: float, ran_seconds: float) -> float:
    """Return a job's remaining run time. A job that has exceeded its estimate is assumed to need as much again as it has
    overrun: first it goes to the front, as a job about to end should, and then it falls back the longer it runs.
    """
    return abs(expected_seconds - ran_seconds)


def review_seconds(job: Job, expected_seconds: float, now_seconds: float) -> float:
    """Return when a running job's estimate is next reviewed: at twice the estimate, four times the estimate, and so on. Up to
    the estimate the remaining time only shrinks, so no job can overtake. Beyond it, the time grows, and another job may. The
    growing distance keeps reviews few even for a bad estimate; a correct one needs none.
    """
    ran_seconds = job.ran_seconds(now_seconds) + _SLACK_SECONDS
    review = 2 * expected_seconds
    while review <= ran_seconds:
        review *= 2
    counted_seconds = now_seconds if job.as_of_seconds is None else job.as_of_seconds
    return counted_seconds + review - job.executed_seconds


def demanded_gpus(job: Job) -> float:
    """Return a job's number of GPUs, in fractions, running or waiting. The share for a memory demand depends on the GPU: such
    a job counts as placed, or else with whole GPUs.
    """
    demand = job.demand
    if demand.exclusive:
        return float(demand.gpus)
    if demand.memory_bytes is None:
        return demand.gpus * demand.share_percent / 100
    if job.placement:
        return held_gpus(job.placement)
    return float(demand.gpus)
