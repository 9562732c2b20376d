"""The remaining run time of a job of known duration, and the GPUs that it counts for."""

from __future__ import annotations

from laneway.scheduling.model.snapshot import Job

_SLACK_SECONDS = 1e-3
"""That a sum of floats may fall short by, so that a review that is due is not found to be a moment ahead."""


def remaining_seconds(expected_seconds: float, ran_seconds: float) -> float:
    """Return how long a job still runs.

    An estimate may be wrong: a job that has outrun it is taken to need as much again as it has overrun. So it comes
    first for a moment, as one that is about to end should, and later and later the longer it goes on.
    """
    return abs(expected_seconds - ran_seconds)


def review_seconds(job: Job, expected_seconds: float, now_seconds: float) -> float:
    """Return when an estimate is to be looked at again that a running job may outrun: at twice it, four times it, …

    Until the estimate is reached what remains only shrinks, and nobody can overtake the job; then it grows, and somebody
    may. Reviews at a growing distance are few, however wrong the estimate, and there is none where it is right.
    """
    ran_seconds = job.ran_seconds(now_seconds) + _SLACK_SECONDS
    review = 2 * expected_seconds
    while review <= ran_seconds:
        review *= 2
    counted_seconds = now_seconds if job.as_of_seconds is None else job.as_of_seconds
    return counted_seconds + review - job.executed_seconds


def demanded_gpus(job: Job) -> float:
    """Return the GPUs that a job counts for, in fractions, whether it runs or waits.

    What a share by memory comes to depends on the GPU that it gets: such a job counts as placed, or with whole GPUs.
    """
    demand = job.demand
    if demand.exclusive:
        return float(demand.gpus)
    if demand.memory_bytes is None:
        return demand.gpus * demand.share_percent / 100
    if job.placement:
        return sum(worker.share_percent * len(worker.gpus) for worker in job.placement) / 100
    return float(demand.gpus)
