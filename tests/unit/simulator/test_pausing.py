"""Pausing and offloading: what they keep, what they cost, and whom they let run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.scheduling import JobState, Profile, WorkerPlacement
from laneway.simulator import Costs, Knowledge, Simulation
from laneway.simulator.history import Phase
from laneway.simulator.run import Run

from tests.unit.simulator.builders import FREE, SMALL, a_job, finishes, sharing_memory, simulated

KNOWN = Knowledge(profiled=True)
LARGE = Profile(persistent_bytes=50 * 2**30, ephemeral_bytes=10 * 2**30, iteration_seconds=1.0)


def long_and_short(profile: Profile, costs: Costs, offered_percent: int = 200) -> Simulation:
    """A long job is preempted at 50 s for one of 20 s."""
    return simulated(
        a_job("long", 100, profile=profile),
        a_job("short", 20, submit=50, profile=profile),
        nodes=sharing_memory("1x1", offered_percent=offered_percent),
        costs=costs,
        knowledge=KNOWN,
        thresholds_gpu_seconds=[30],
        promotion_factor=0,
    )


def phases(simulation: Simulation, job: str) -> list[tuple[Phase, float, float]]:
    return [
        (interval.phase, interval.from_seconds, interval.to_seconds)
        for interval in simulation.intervals()
        if interval.job == job
    ]


def test_a_job_whose_memory_fits_beside_the_other_is_paused_in_place() -> None:
    simulation = long_and_short(SMALL, FREE)
    assert finishes(simulation) == {"long": 120, "short": 70}
    assert phases(simulation, "long") == [
        (Phase.RUNNING, 0, 50),
        (Phase.PAUSED, 50, 70),
        (Phase.RUNNING, 70, 120),
    ]
    assert (simulation.runs["long"].preemptions, simulation.runs["long"].evictions) == (1, 0)


def test_pausing_delays_the_other_and_resuming_delays_the_job() -> None:
    simulation = long_and_short(SMALL, replace(FREE, pause_seconds=2, resume_seconds=3, restart_seconds=30))
    # paused by 52; short runs 52..72; long resumes at 75
    assert finishes(simulation) == {"long": 125, "short": 72}


def test_a_job_whose_memory_does_not_fit_beside_the_other_is_offloaded_at_a_cost_per_gib() -> None:
    costs = replace(FREE, offload_seconds_per_gib=0.1, restore_seconds_per_gib=0.2)
    simulation = long_and_short(LARGE, costs)
    # 50 GiB: away by 55; short runs 55..75; back at 85
    assert finishes(simulation) == {"long": 135, "short": 75}
    assert simulation.runs["long"].evictions == 0


def test_a_job_that_cannot_stay_is_evicted() -> None:
    simulation = long_and_short(SMALL, replace(FREE, leave_seconds=5, restart_seconds=7), offered_percent=100)
    assert finishes(simulation) == {"long": 50 + 5 + 20 + 7 + 50, "short": 75}
    assert simulation.runs["long"].evictions == 1


def test_a_paused_job_attains_no_service_and_makes_no_progress() -> None:
    run = long_and_short(SMALL, FREE).runs["long"]
    assert run.attained_gpu_seconds == pytest.approx(100)
    assert run.executed_seconds == pytest.approx(100)
    assert run.counted_progress_seconds == 100


def test_an_exclusive_job_on_an_overcommitted_gpu_ages_by_one_gpu() -> None:
    """As the operator counts it: 200 percent of a GPU are one GPU."""
    run = Run(a_job("ns/a", 100), 0.0, 100.0)
    run.hold((WorkerPlacement(0, "n", ("g0", "g1"), 200),))
    assert run.held_gpus == 2.0
    run.state = JobState.RUNNING
    assert run.as_job().rate_gpus == 2.0
