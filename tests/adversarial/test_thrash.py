"""Preemptions cost a job little of its time, however small and many the jobs are for which it is preempted."""

from __future__ import annotations

import pytest
from laneway.scheduling import Demand, Job, JobState, Scheduler, WorkerPlacement, policies
from laneway.simulator import Simulation, make_nodes

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


def test_victims_do_not_take_back_the_gpus_that_are_kept_for_a_gang() -> None:
    """Half of a node is idle until a job there has run for the minimum time. The victims have waited for hours."""
    (node,) = make_nodes("1x8")
    now = 10 * HOUR
    scheduler = Scheduler([node], policies())
    held = tuple(WorkerPlacement(at, node.name, (gpu.uuid,), 100) for at, gpu in enumerate(node.gpus[:4]))
    holder = Job(
        "ns/holder", Demand(4), now, state=JobState.RUNNING, placement=held, started_seconds=now - MINUTE
    )
    scheduler.observe(holder)
    scheduler.observe(
        Job("ns/gang", Demand(8), -100 * HOUR, executed_seconds=60, attained_service_gpu_seconds=480)
    )
    for number in range(20):
        victim = Job(f"ns/victim-{number:02}", Demand(1), 0.0, executed_seconds=600)
        scheduler.observe(victim)

    plan = scheduler.plan(now)

    assert not plan.starts
    assert plan.order[0] == "ns/gang"
