"""Preemptions cost a job little of its time, however small and many the jobs are for which it is preempted."""

from __future__ import annotations

import pytest
from laneway.simulator import Simulation

from tests.support.workloads import HOUR, MINUTE, a_job, completion_seconds, simulated, stream

EVICTION_SECONDS = 50.0


def lost_part(simulation: Simulation, name: str) -> float:
    """The part of a job's work that evictions cost."""
    run = simulation.runs[f"ns/{name}"]
    return run.evictions * EVICTION_SECONDS / run.executed_seconds


@pytest.mark.parametrize("load", [0.008, 0.016, 0.039])
def test_a_few_small_jobs_do_not_keep_a_wide_gang_from_running(load: float) -> None:
    """One-GPU jobs of five minutes on 64 GPUs, beside a gang of 64 that works for 10 hours."""
    small = stream(load, 64, 5 * MINUTE, 40 * HOUR)
    simulation = simulated(
        a_job("gang", 10 * HOUR, gpus=64, submit=HOUR), *small, nodes="8x8", until_done="gang"
    )
    assert completion_seconds(simulation, "gang") <= 1.3 * 10 * HOUR / (1 - load)
    assert lost_part(simulation, "gang") <= 0.1


@pytest.mark.parametrize("priority", [0, 10])
def test_no_stream_of_jobs_takes_more_than_a_tenth(priority: int) -> None:
    """Each newcomer would like to preempt; some do so by their priority class."""
    small = stream(0.3, 8, 4 * MINUTE, 60 * HOUR, priority=priority)
    simulation = simulated(
        *[a_job(f"long-{number}", 10 * HOUR) for number in range(8)],
        *small,
        nodes="1x8",
        until_seconds=60 * HOUR,
    )
    for number in range(8):
        assert lost_part(simulation, f"long-{number}") <= 0.1
