"""Jobs whose number of workers changes while they are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling import Demand, policies
from laneway.scheduling.elastic.policy import ElasticJob
from laneway.scheduling.model.efficiency import Efficiency
from laneway.scheduling.model.goodput import BatchLimits, GoodputModel
from laneway.scheduling.model.throughput import ThroughputModel
from laneway.simulator import IDEAL, Costs, Latencies, OperatorModel, Simulation, TraceJob, make_nodes
from laneway.simulator.history import Phase
from laneway.simulator.models.speed_model import Changes, Occupancy, Speed

from tests.support.property_examples import examples
from tests.unit.simulator.builders import FREE, simulated

ALONE_IS_BEST = GoodputModel(
    ThroughputModel(
        compute_seconds=1.0,
        compute_seconds_per_sample=0.0,
        internode_seconds=100.0,
        intranode_seconds=100.0,
    ),
    Efficiency(1, 0.0),
    BatchLimits(1, 1),
)
"""A second worker costs a hundred times its gain."""


def elastic_job(
    name: str, duration: float, *, submit: float = 0.0, fewest: int = 1, most: int = 4
) -> TraceJob:
    """A job whose duration is that with two workers."""
    return TraceJob(name, Demand(2, min_workers=fewest, max_workers=most), submit, duration)


def workers_over_time(simulation: Simulation, job: str) -> list[tuple[int, float, float]]:
    """How many GPUs a job ran on, from when to when."""
    return [
        (len(interval.gpus), interval.from_seconds, interval.to_seconds)
        for interval in simulation.intervals()
        if interval.job == job and interval.phase is Phase.RUNNING
    ]


def test_work_is_done_in_proportion_to_the_workers() -> None:
    simulation = simulated(elastic_job("a", 400), nodes="1x4", order="pollux")
    parts = workers_over_time(simulation, "a")
    assert {workers for workers, _, _ in parts} > {4}, "it has grown to all of the GPUs"
    assert sum(workers / 2 * (end - begin) for workers, begin, end in parts) == pytest.approx(400)


def test_a_change_of_workers_costs_a_leave_and_a_restart_and_is_no_preemption() -> None:
    free = simulated(elastic_job("a", 4000), nodes="1x4", order="pollux")
    costs = replace(FREE, leave_seconds=5, restart_seconds=7)
    charged = simulated(elastic_job("a", 4000), nodes="1x4", order="pollux", costs=costs)
    run = charged.runs["a"]
    assert run.preemptions == 0
    assert run.rescales == run.evictions > 0
    assert run.executed_seconds + run.rescales * 12 == pytest.approx(run.finish_seconds)
    assert run.finish_seconds is not None
    assert free.runs["a"].finish_seconds is not None
    assert run.finish_seconds > free.runs["a"].finish_seconds


@dataclass(frozen=True)
class Reporting:
    """Jobs that find, as soon as they run, that one worker is best for them."""

    def speeds(self, changes: Changes, occupancy: Occupancy, now_seconds: float) -> dict[str, Speed]:
        return dict.fromkeys(changes.runs, Speed(1.0, goodput=ALONE_IS_BEST))


def test_the_scheduler_learns_what_jobs_report_of_their_goodput() -> None:
    simulation = simulated(elastic_job("a", 400), nodes="1x4", order="pollux", model=Reporting())
    assert [workers for workers, _, _ in workers_over_time(simulation, "a")][-1] == 1
    assert simulated(elastic_job("b", 400), nodes="1x4", order="pollux").runs["b"].rescales > 0


@dataclass
class Recorded:
    """Gives every job two workers, from some time on three, and keeps what it was reported of the jobs."""

    more_after_seconds: float
    reported: list[ElasticJob] = field(default_factory=list)

    def allot(
        self, jobs: Sequence[ElasticJob], free_gpus: Mapping[str, int], now_seconds: float
    ) -> Mapping[str, int]:
        self.reported.extend(jobs)
        return dict.fromkeys((job.key for job in jobs), 3 if now_seconds >= self.more_after_seconds else 2)


def rescaled_once(operator: OperatorModel) -> Recorded:
    """What a policy is reported of a job that it rescales after a minute, while others come."""
    elastic = Recorded(more_after_seconds=60.0)
    chosen = policies(order="fifo", preemption_options={"min_run_seconds": 0.0})
    trace = [
        elastic_job("ns/a", 400),
        *(elastic_job(f"ns/{second}", 5, submit=float(second), fewest=2) for second in range(61, 140, 2)),
    ]
    costs = Costs(leave_seconds=5.0, restart_seconds=7.0)
    simulation = Simulation(
        trace, make_nodes("1x4"), replace(chosen, elastic=elastic), costs, operator=operator
    )
    simulation.run()
    return elastic


def test_a_policy_knows_how_many_workers_a_job_had_that_waits_to_be_restarted() -> None:
    """So does the operator (``status.attemptWorkers``): else the job could not have more than its fewest workers."""
    reported = [job for job in rescaled_once(IDEAL).reported if job.key == "ns/a"]
    waiting = [job for job in reported if not job.workers and job.restarts]
    assert waiting
    assert {job.explored_workers for job in waiting} == {2}


def test_a_policy_knows_what_the_last_rescale_cost_as_the_operator_measures_it() -> None:
    operator = OperatorModel(latencies=Latencies(0.0, 0.0, 0.0, 0.0))
    reported = [job for job in rescaled_once(operator).reported if job.key == "ns/a" and job.workers]
    assert reported[0].rescale_seconds is None
    assert reported[-1].rescale_seconds == pytest.approx(12.0, abs=0.2)
    ideal = [job for job in rescaled_once(IDEAL).reported if job.key == "ns/a"]
    assert {job.rescale_seconds for job in ideal} == {None}, "as in the simulators of the papers"


@settings(max_examples=examples(15))
@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(1, 300), st.integers(1, 2), st.integers(2, 4)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([FREE, Costs()]),
)
def test_elastic_jobs_finish_their_work_within_their_range(
    rows: list[tuple[int, int, int, int]], costs: Costs
) -> None:
    jobs = [
        elastic_job(f"j{number}", float(duration), submit=float(submit), fewest=fewest, most=most)
        for number, (submit, duration, fewest, most) in enumerate(rows)
    ]
    simulation = simulated(*jobs, nodes="2x3", order="pollux", costs=costs)
    for job in jobs:
        run = simulation.runs[job.key]
        parts = workers_over_time(simulation, job.key)
        assert run.finish_seconds is not None
        assert {workers for workers, _, _ in parts} <= set(
            range(job.demand.fewest_workers, job.demand.most_workers + 1)
        )
        done = sum(workers / 2 * (end - begin) for workers, begin, end in parts)
        assert done == pytest.approx(job.duration_seconds)
