"""The comparison with the real cluster: its cases, and how measured times become the model's."""

from __future__ import annotations

import pytest
from laneway.scheduling import Demand, policies
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.simulator import Simulation, TraceJob, make_nodes

from tests.performance.real_cluster.cases import CASES
from tests.performance.real_cluster.comparison import modelled, same_order_percent
from tests.performance.real_workload.calibration import MeasuredCosts

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


def test_the_operators_configuration_is_that_of_the_charts_values() -> None:
    by_name = {case.name: case.config.scheduling for case in CASES}
    assert by_name["default"] == by_name["sharing"] == OperatorConfig().scheduling
    assert by_name["preemption"].order.options == {"firstThresholdGpuSeconds": 40}
    assert by_name["preemption"].order.policy == by_name["default"].order.policy


def test_jobs_have_other_names_in_each_run_and_halves_of_gpus_where_they_share() -> None:
    alone, shared = (next(case for case in CASES if case.name == name) for name in ("default", "sharing"))
    assert not {job.name for job in alone.jobs(8, 1)} & {job.name for job in alone.jobs(8, 2)}
    assert {job.share_percent for job in alone.jobs(16, 1)} >= {100}
    assert max(job.share_percent for job in shared.jobs(16, 1)) == 50


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
