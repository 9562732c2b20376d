"""Jobs that share GPUs at other speeds than the scheduler believes: it measures, and corrects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laneway.scheduling import Profile, StageSeconds
from laneway.scheduling.config.registry import policies
from laneway.scheduling.model.interference import Load
from laneway.simulator import Knowledge, Sharing, Simulation, make_nodes
from laneway.simulator.models.lockstep import OVERHEAD_RATIOS, Lockstep
from laneway.simulator.models.speed_model import Changes, Occupancy, Speed

from tests.support.property_examples import examples
from tests.unit.simulator.builders import FREE, a_job

MEASURED = Knowledge(profiled=True, stages=False)
WORK_SECONDS = 50_000.0
READS = Profile(0, 0, 1.0, stages=StageSeconds(0.4, 0.5, 0.1, 0.0))
COMPUTES = Profile(0, 0, 1.0, stages=StageSeconds(0.0, 0.05, 0.85, 0.1))


@dataclass(frozen=True)
class Together:
    """Speeds of two jobs while both run."""

    of: dict[str, float]

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        keys = {key for uuid in changes.gpus for key in occupancy.on_gpu(uuid)} | set(changes.runs)
        both = len(keys) > 1
        return {key: Speed(self.of[key] if both else 1.0) for key in keys}


def simulated(together: Together, knowledge: Knowledge) -> Simulation:
    """Two jobs and one GPU."""
    jobs = [
        a_job("reads", WORK_SECONDS, profile=READS, model="reads"),
        a_job("computes", WORK_SECONDS, profile=COMPUTES, model="computes"),
    ]
    by = policies(order="fifo", placement="lanes", preemption_options={"min_run_seconds": 0})
    simulation = Simulation(
        jobs,
        Sharing(2).shared(make_nodes("1x1")),
        by,
        FREE,
        model=together,
        knowledge=knowledge,
    )
    simulation.run()
    return simulation


def last_seconds(simulation: Simulation) -> float:
    return max(run.finish_seconds or 0.0 for run in simulation.runs.values())


@settings(max_examples=examples(40), deadline=None)
@given(st.floats(0.02, 1.0), st.floats(0.02, 1.0))
@example(reads=0.484375, computes=0.5)
@example(reads=0.5, computes=0.498046875)
def test_sharing_is_never_worse_than_not_sharing_by_more_than_the_time_of_measuring(
    reads: float, computes: float
) -> None:
    """All work is done by then: no group that loses throughput stays together after both were measured."""
    together = Together({"reads": reads, "computes": computes})
    jobs = simulated(together, MEASURED)
    measuring = max(
        MEASURED.measuring_seconds(jobs.runs[key].job, ratio) for key, ratio in together.of.items()
    )
    assert last_seconds(jobs) <= 2 * WORK_SECONDS + measuring + 1e-3


def test_without_measuring_it_is_worse() -> None:
    together = Together({"reads": 0.3, "computes": 0.3})
    assert last_seconds(simulated(together, replace(MEASURED, measured_iterations=0))) > 2.5 * WORK_SECONDS
    assert last_seconds(simulated(together, MEASURED)) < 2.01 * WORK_SECONDS


def test_what_gains_stays_together() -> None:
    simulation = simulated(Together({"reads": 0.8, "computes": 0.9}), MEASURED)
    assert last_seconds(simulation) == pytest.approx(WORK_SECONDS * (1 / 0.9 + 1 - 0.8 / 0.9))
    assert not any(run.preemptions for run in simulation.runs.values())


def test_a_measured_profile_has_the_times_within_and_before_an_iteration() -> None:
    known = MEASURED.profile_of(a_job("j", 1, profile=COMPUTES))
    assert known is not None
    assert known.iteration_seconds == pytest.approx(1.0)
    assert known.stages == pytest.approx(StageSeconds(0.0, 0.0, 0.95, 0.0))
    assert Knowledge().profile_of(a_job("j", 1, profile=COMPUTES)) == COMPUTES


def test_a_speed_is_known_after_some_iterations_and_reports() -> None:
    job = a_job("j", 1, profile=replace(READS, iteration_seconds=10.0))
    assert MEASURED.measuring_seconds(job, 0.5) == 16 * 10 / 0.5
    assert MEASURED.measuring_seconds(a_job("j", 1, profile=READS), 0.5) == 60.0
    assert MEASURED.measuring_seconds(a_job("j", 1), 0.5) == float("inf")


def load(iteration: float, before: float, gpu: float, network: float) -> Load:
    return Load(StageSeconds(before / 2, before / 2, gpu, network), iteration)


A2C, GPT2 = load(555, 502, 14, 0.4), load(437, 0.6, 419, 49)
"""Of Muri's trace, in milliseconds."""


def test_in_lockstep_all_take_the_time_of_the_groups_iteration() -> None:
    ideal = Lockstep(overhead=False)
    assert ideal.speed_ratios([A2C, GPT2]) == pytest.approx((1.0, 437 / 555))
    real = Lockstep().speed_ratios([A2C, GPT2])
    assert real == pytest.approx([each / OVERHEAD_RATIOS[1] for each in (1.0, 437 / 555)])
    assert ideal.speed_ratios([GPT2]) == (1.0,)


def test_two_jobs_that_compute_take_turns_in_lockstep() -> None:
    computes = load(1.0, 0.0, 1.0, 0.0)
    assert Lockstep(overhead=False).speed_ratios([computes, computes]) == pytest.approx((0.5, 0.5))


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0.01, 1), st.floats(0.01, 1), st.floats(0, 1)).map(
            lambda stages: load(sum(stages), *stages)
        ),
        min_size=2,
        max_size=5,
    )
)
def test_no_job_is_faster_in_lockstep_than_alone_and_the_order_does_not_matter(loads: list[Load]) -> None:
    ratios = Lockstep(overhead=False).speed_ratios(loads)
    assert all(0 < each <= 1 + 1e-9 for each in ratios)
    assert Lockstep(overhead=False).speed_ratios(loads[::-1]) == pytest.approx(ratios[::-1])


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 20_000), st.integers(100, 50_000), st.sampled_from([1, 1, 2])),
        min_size=2,
        max_size=10,
    )
)
def test_where_nothing_is_worth_sharing_overcommitted_gpus_are_scheduled_like_others(
    jobs: list[tuple[int, int, int]],
) -> None:
    """An overcommitted GPU has no more time than another, so no job is guaranteed more of it."""
    trace = [
        a_job(f"j{at}", duration, submit=submit, gpus=gpus, profile=COMPUTES, model=f"m{at}")
        for at, (submit, duration, gpus) in enumerate(jobs)
    ]
    by = policies(order="multilevel-las", placement="lanes", placement_options={"min_gain_ratio": 1.0})
    finished = []
    for overcommit in (1, 4):
        nodes = Sharing(overcommit).shared(make_nodes("1x2"))
        simulation = Simulation(trace, nodes, by, model=Lockstep(), knowledge=MEASURED)
        simulation.run()
        finished.append({key: run.finish_seconds for key, run in simulation.runs.items()})
    assert finished[0] == finished[1]
