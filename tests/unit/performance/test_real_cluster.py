"""The comparison with the real cluster: its cases, and how measured times become the model's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import product

import pytest
from laneway.api.goodput_status import BatchStatus, GoodputStatus, StepObservation
from laneway.api.training_job import TrainingJobSpec
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.lifecycle.goodput import goodput_of
from laneway.operator.state.records.template_hash import template_hash
from laneway.scheduling import Demand, policies
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.interference import load_of
from laneway.scheduling.model.spec_demand import demand_of
from laneway.simulator import Records, Sharing, Simulation, TraceJob, make_nodes
from laneway.simulator.records import JobRecord

from hack.demo.jobs import job_view
from tests.performance.real_cluster.cases import CASES, DEFAULT_CASES, GPUS, GPUS_PER_NODE, Case
from tests.performance.real_cluster.comparison import Measured, compared, modelled, same_order_percent
from tests.performance.real_cluster.drawn_jobs import (
    GLOBAL_BATCH,
    DrawnJob,
    one_of_each_kind,
    two_for_each_gpu,
)
from tests.performance.real_cluster.reported_goodput import ReportedGoodput
from tests.performance.real_cluster.sharing_of_gpus import Hold, joined
from tests.performance.real_cluster.templates import (
    MeasuredPair,
    MeasuredTemplate,
    MeasuredTemplates,
    SpeedsBeside,
    pairs_of,
    read_templates,
)
from tests.performance.real_workload.calibration import MeasuredCosts
from tests.performance.real_workload.live_cluster import Submitted
from tests.performance.real_workload.workload import BATCH_SECONDS
from tests.performance.sharing.figures import JobRun

MEASURED = MeasuredCosts(
    decision_seconds=0.25,
    start_seconds=1.5,
    setup_seconds_by_workers={1: 2.0},
    exit_seconds_by_workers={1: 0.5},
    notice_seconds=2.0,
    end_seconds=3.0,
    leave_seconds=6.0,
    samples={},
)


def simulated(*jobs: TraceJob) -> Simulation:
    operator, costs = modelled(OperatorConfig(), MEASURED)
    chosen = policies(
        order="tiresias-las",
        order_options={"thresholds_gpu_seconds": (10.0,)},
        preemption_options={"min_run_seconds": 0.0},
    )
    simulation = Simulation(jobs, make_nodes("1x1"), chosen, costs, operator=operator)
    simulation.run()
    return simulation


def a_job(name: str, submit_seconds: float, duration_seconds: float) -> TraceJob:
    return TraceJob(f"ns/{name}", Demand(), submit_seconds, duration_seconds)


BY_NAME = {case.name: case for case in CASES}
SEEDS = (0, 1, 2)


def test_the_operators_configuration_is_that_of_the_charts_values() -> None:
    configs = {name: case.config for name, case in BY_NAME.items()}
    assert configs["default"] == OperatorConfig(), "the chart's own configuration"
    assert configs["lanes"] == OperatorConfig(sharing="lanes")
    assert configs["elastic"].sharing == configs["preemption"].sharing == "off"
    assert configs["preemption"].scheduling.order.options == {"firstThresholdGpuSeconds": 40}
    assert configs["elastic"].scheduling.elastic.policy == "pollux"
    assert set(DEFAULT_CASES.split(",")) <= BY_NAME.keys()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_seeds_jobs_are_always_the_same_and_those_of_others_differ(case: Case) -> None:
    drawn = {seed: list(case.jobs(seed)) for seed in SEEDS}
    assert drawn == {seed: list(case.jobs(seed)) for seed in SEEDS}
    assert len({tuple(job.submit_seconds for job in jobs) for jobs in drawn.values()}) == len(SEEDS)
    for jobs in drawn.values():
        assert [job.submit_seconds for job in jobs] == sorted(job.submit_seconds for job in jobs)
        assert 8 <= len(jobs) <= 12
        assert max(job.workers for job in jobs) <= GPUS


def test_no_two_runs_have_a_job_of_the_same_name() -> None:
    """A checkpoint is found by it."""
    names = [job.name for case in CASES for seed in SEEDS for job in case.jobs(seed)]
    assert len(names) == len(set(names))


def test_the_specs_are_valid_and_say_how_many_workers_an_elastic_job_may_have() -> None:
    specs = [
        TrainingJobSpec.model_validate(job.manifest("ns")["spec"]) for case in CASES for job in case.jobs(0)
    ]
    assert {(spec.min_workers, spec.max_workers) for spec in specs} == {(None, None), (1, 2), (1, 4)}
    assert {GLOBAL_BATCH % workers for workers in range(1, 5)} == {0}, "all divide a batch evenly"


def test_jobs_of_a_kind_are_of_one_template_that_was_measured_before() -> None:
    """A template is found by the whole pod: the jobs that are measured differ from those of the runs in their names only."""
    measured = {template_hash(spec_of(job)) for job in one_of_each_kind()}
    for seed in SEEDS:
        assert {template_hash(spec_of(job)) for job in BY_NAME["lanes"].jobs(seed)} == measured
    assert {template_hash(spec_of(job)) for job in two_for_each_gpu(GPUS)} == measured
    assert len(measured) == len(one_of_each_kind()) < GPUS


def spec_of(job: Submitted) -> TrainingJobSpec:
    return TrainingJobSpec.model_validate(job.manifest("ns")["spec"])


def test_a_job_joins_those_that_are_on_its_gpu_when_it_is_placed() -> None:
    assert joined(
        [
            Hold("first", frozenset({"a", "b"}), 0.0, 50.0),
            Hold("beside it", frozenset({"b"}), 10.0, 20.0),
            Hold("after it", frozenset({"b"}), 50.0, 60.0),
            Hold("elsewhere", frozenset({"c"}), 10.0, 20.0),
        ]
    ) == {"beside it"}


HALF = MeasuredTemplate(100.0, 2**24, 2**26, gpu_microseconds=100_000, data_microseconds=100_000)


def a_run(number: int, gpu: str, start: float, end: float) -> JobRun:
    """A job of 100 steps at an even pace."""
    at = [start + (end - start) * step / 100 for step in range(101)]
    return JobRun(
        f"job-{number}",
        "crowd",
        "half",
        100,
        submit_seconds=0.0,
        placed_seconds=[start],
        start_seconds=start,
        end_seconds=end,
        completed_seconds=end,
        cpu_seconds=1.0,
        gpus=[gpu],
        progress=list(zip(at, range(101), strict=True)),
    )


def test_the_speed_of_a_pair_is_that_of_the_time_in_which_both_train() -> None:
    runs = [a_run(0, "a", 0.0, 125.0), a_run(1, "a", 25.0, 150.0), a_run(2, "b", 0.0, 100.0)]
    pair, *others = pairs_of(runs, {"half": HALF})
    assert not others
    assert pair.ratios == pytest.approx((0.8, 0.8), abs=0.01)


def test_three_jobs_of_a_gpu_are_no_pair() -> None:
    runs = [a_run(number, "a", 0.0, 150.0) for number in range(3)]
    assert pairs_of(runs, {"half": HALF}) == []


def test_the_simulation_has_the_speeds_that_were_measured_before_and_for_others_the_schedulers_model() -> (
    None
):
    """Two half-idle jobs that wait for one another with even odds keep 80 %; these do better, and a third template is modelled."""
    other = replace(HALF, gpu_microseconds=60_000, data_microseconds=140_000)
    kinds = {"half": HALF, "third": other}
    beside = SpeedsBeside(MeasuredTemplates(kinds, [MeasuredPair(("half", "half"), (0.93, 0.91))]))
    half, third = load_of(HALF.profile), load_of(other.profile)
    assert beside.speed_ratios([half, half]) == pytest.approx((0.92, 0.92), abs=0.02)
    assert beside.speed_ratios([half]) == (1.0,)
    assert all(0.7 < ratio <= 1.0 for ratio in beside.speed_ratios([half, third]))


def test_an_elastic_job_is_as_fast_as_its_workers_are_many_and_reports_what_the_operator_makes_of_its_batches() -> (
    None
):
    status = TrainingJobStatus(goodput=goodput_seen_of(workers=1))
    reported = ReportedGoodput()
    trace = [TraceJob("ns/a", Demand(1, min_workers=1, max_workers=4), 0.0, 1000.0)]
    chosen = policies(order="pollux", preemption_options={"min_run_seconds": 0.0})
    simulation = Simulation(trace, make_nodes("2x2"), chosen, model=reported)
    simulation.step()
    run = simulation.runs["ns/a"]
    assert run.goodput == goodput_of(status), "of one worker"
    simulation.run()
    assert run.goodput is not None
    assert run.goodput.explored_replicas == 4
    assert run.executed_seconds < 500.0


def goodput_seen_of(workers: int) -> GoodputStatus:
    """What the operator keeps of a job that divides each batch among this many workers of one node."""
    batch = BatchStatus(
        ranks=workers,
        local_batch=GLOBAL_BATCH // workers,
        initial_batch=GLOBAL_BATCH,
        max_batch=GLOBAL_BATCH,
        max_local_batch=GLOBAL_BATCH,
    )
    step = StepObservation(
        nodes=1,
        workers=workers,
        local_batch=GLOBAL_BATCH // workers,
        pass_microseconds=round(1e6 * BATCH_SECONDS / workers),
    )
    return GoodputStatus(batch=batch, observations=(step,))


def test_measured_templates_are_read_from_a_result() -> None:
    found = MeasuredTemplates({"half": HALF}, [MeasuredPair(("half", "half"), (0.8, 0.7))])
    assert read_templates(json.loads(json.dumps(asdict(found)))) == found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_run_is_compared_with_the_simulation_of_its_own_jobs(case: Case) -> None:
    """Every job starts and ends in the simulation; a lanes job needs the stages of its template, and joins others."""
    jobs = case.jobs(0)
    kinds = {
        kind: replace(HALF, train_seconds=40.0, gpu_microseconds=gpu, data_microseconds=200_000 - gpu)
        for kind, gpu in (("gpu-30", 60_000), ("gpu-40", 80_000), ("gpu-70", 140_000))
    }
    templates = MeasuredTemplates(kinds, [MeasuredPair(pair, (0.9, 0.9)) for pair in product(kinds, kinds)])
    found = compared(
        records_of(case, jobs),
        {job.name: job_view({"metadata": META | {"name": job.name}, "spec": {}}) for job in jobs},
        jobs,
        case.config,
        Measured(replace(MEASURED, **BY_WORKERS), templates),
    )
    assert len(found["jobs"]) == len(jobs)
    assert found["simulated_makespan_seconds"] > max(job.submit_seconds for job in jobs)
    assert (found["simulated_joins"] > 0) is case.joins
    assert (found["simulated_rescales"] > 0) is (case.name == "elastic")
    assert (found["simulated_preemptions"] > 0) is (case.name == "preemption")


META = {"uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
BY_WORKERS = {
    "setup_seconds_by_workers": {1: 2.0, 4: 4.0},
    "exit_seconds_by_workers": {1: 0.5, 2: 0.5, 4: 1.0},
}


def records_of(case: Case, jobs: Sequence[DrawnJob]) -> Records:
    """Records of a cluster with the case's GPUs on which each job took a minute."""
    cluster = Sharing(overcommit=case.offered_percent / 100 / GPUS_PER_NODE).shared(
        make_nodes(f"2x{GPUS_PER_NODE}:Laneway Simulated Crowd:1")
    )
    recorded = [
        JobRecord(
            TraceJob(f"ns/{job.name}", demand_of(spec_of(job)), job.submit_seconds, 60.0),
            finish_seconds=job.submit_seconds + 60.0,
            start_seconds=job.submit_seconds,
            preemptions=0,
            restarts=0,
        )
        for job in jobs
    ]
    return Records(tuple(recorded), cluster, {}, None, None)


def test_a_start_takes_the_measured_times() -> None:
    run = simulated(a_job("a", 0.0, 5.0)).runs["ns/a"]
    assert run.first_start_seconds == pytest.approx(MEASURED.decision_seconds)
    assert run.first_run_seconds == pytest.approx(MEASURED.decision_seconds + MEASURED.start_seconds)


def test_gpus_change_hands_in_the_measured_time() -> None:
    runs = simulated(a_job("a", 0.0, 5.0), a_job("b", 1.0, 5.0)).runs
    ended, placed = runs["ns/a"].finish_seconds, runs["ns/b"].first_start_seconds
    assert ended is not None
    assert placed == pytest.approx(ended + MEASURED.end_seconds)


def test_a_preemption_takes_the_measured_time() -> None:
    runs = simulated(a_job("a", 0.0, 50.0), a_job("b", 20.0, 5.0)).runs
    assert runs["ns/a"].preemptions == 1
    decided_seconds = 20.0 + MEASURED.decision_seconds
    assert runs["ns/b"].first_start_seconds == pytest.approx(decided_seconds + MEASURED.leave_seconds)


@pytest.mark.parametrize(
    ("starts", "percent"),
    [
        ([], 100.0),
        ([(0, 0), (1, 1), (2, 2)], 100.0),
        ([(0, 2), (1, 1), (2, 0)], 0.0),
        ([(0, 5), (0, 3)], 100.0),
    ],
)
def test_the_order_of_starts_is_compared_pair_by_pair(
    starts: list[tuple[float, float]], percent: float
) -> None:
    assert same_order_percent(starts) == percent
