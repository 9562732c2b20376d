"""Beside jobs of a higher priority class, which may preempt at once, a job gets its part of what they leave free."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from laneway.simulator import TraceJob

from tests.support.workloads import HOUR, MINUTE, a_job, completion_seconds, simulated, stream

FACTOR = 3.0
WORK = 2 * HOUR


def whole_node(load: float, seconds: float, end_seconds: float) -> Iterator[TraceJob]:
    """Yield urgent jobs of 8 GPUs that arrive at random."""
    rng, at_seconds = random.Random(3), 0.0
    while at_seconds < end_seconds:
        at_seconds += rng.expovariate(load / seconds)
        yield a_job(f"high-{at_seconds:.0f}", seconds, gpus=8, submit=at_seconds, priority=10)


@pytest.mark.parametrize(
    ("high", "seconds", "equal"), [(0.5, HOUR, 0.0), (0.5, 600.0, 0.0), (0.3, HOUR, 0.3), (0.25, 1200.0, 0.5)]
)
def test_a_gang_completes_beside_urgent_jobs_as_wide(high: float, seconds: float, equal: float) -> None:
    """They leave all GPUs or none, so the bound holds for the load of both priorities together."""
    bound = FACTOR * WORK / (1 - high - equal)
    small = stream(equal, 8, 20 * MINUTE, 2 * bound) if equal else ()
    simulation = simulated(
        a_job("gang", WORK, gpus=8, submit=HOUR),
        *whole_node(high, seconds, 2 * bound),
        *small,
        nodes="1x8",
        until_done="gang",
        until_seconds=2 * bound,
    )
    assert completion_seconds(simulation, "gang") <= bound


@pytest.mark.parametrize(("high", "width", "free"), [(0.5, 4, 0.6), (0.25, 4, 0.9), (0.2, 8, 0.2)])
def test_a_gang_completes_in_the_time_in_which_urgent_jobs_leave_its_width(
    high: float, width: int, free: float
) -> None:
    """One-GPU jobs that hold n of 8 GPUs by the Poisson distribution: ``free`` is the probability that they leave the width."""
    bound = FACTOR * WORK / free
    urgent = stream(high, 8, 20 * MINUTE, 2 * bound, priority=10)
    simulation = simulated(
        a_job("gang", WORK, gpus=width, submit=HOUR),
        *urgent,
        nodes="1x8",
        until_done="gang",
        until_seconds=2 * bound,
    )
    assert completion_seconds(simulation, "gang") <= bound
