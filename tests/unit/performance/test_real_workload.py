"""The real workload's data, and how its prediction counts setting up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.scheduling import Demand, policies
from laneway.simulator import Costs, Simulation
from laneway.simulator.cluster import make_nodes
from laneway.simulator.models.lanes import Lanes
from laneway.simulator.trace import TraceJob

from tests.performance.real_workload.prediction import operator_config
from tests.performance.real_workload.setting_up import SettingUp, SetupTimes
from tests.performance.real_workload.workload import draw, read_workload

TIMES = SetupTimes({1: 2.0, 2: 4.0, 4: 10.0})


def finishes(
    *trace: TraceJob, nodes: str = "1x4", order: str = "fifo", **options: object
) -> dict[str, float]:
    simulation = Simulation(
        trace,
        make_nodes(nodes),
        policies(order=order, order_options=options, preemption_options={"min_run_seconds": 0.0}),
        Costs(leave_seconds=0.0, restart_seconds=0.0),
        model=SettingUp(TIMES),
    )
    simulation.run()
    return {key: run.finish_seconds or 0.0 for key, run in simulation.runs.items()}


def a_job(name: str, submit_seconds: float, duration_seconds: float, workers: int = 1) -> TraceJob:
    return TraceJob(f"ns/{name}", Demand(workers=workers), submit_seconds, duration_seconds)


def test_the_jobs_written_down_are_those_drawn() -> None:
    assert tuple(draw()) == read_workload()


def test_the_workload_is_what_it_is_to_be() -> None:
    workload = read_workload()
    assert len(workload) == 30
    assert {job.workers for job in workload} == {1, 2, 4}
    assert {job.share_percent for job in workload} > {50, 100}
    assert min(job.work_seconds for job in workload) >= 15
    assert max(job.work_seconds for job in workload) <= 150


def test_the_prediction_has_the_policies_that_the_chart_configures() -> None:
    scheduling = operator_config().scheduling
    assert scheduling.order.policy == "tiresias-las"
    assert scheduling.order.options["thresholdsGpuSeconds"] == [100, 400]
    assert scheduling.preemption.options == {"minRunSeconds": 20}


@pytest.mark.parametrize(("workers", "want"), [(1, 2.0), (2, 4.0), (3, 7.0), (4, 10.0), (6, 16.0)])
def test_setup_times_are_on_a_line_between_and_beyond_what_was_measured(workers: int, want: float) -> None:
    assert TIMES.seconds(workers) == pytest.approx(want)


def test_one_measurement_holds_for_any_number_of_workers() -> None:
    assert SetupTimes({1: 2.0}).seconds(8) == 2.0


def test_a_job_alone_sets_up_and_then_trains() -> None:
    assert finishes(a_job("a", 0.0, 30.0)) == {"ns/a": pytest.approx(32.0, abs=0.01)}
    assert finishes(a_job("a", 0.0, 30.0, workers=4)) == {"ns/a": pytest.approx(40.0, abs=0.01)}


def test_who_sets_up_at_the_same_time_slows_the_other_down() -> None:
    """The second comes when the first is half done: 1 s alone, 2 s together for the rest; then the second alone."""
    finished = finishes(a_job("a", 0.0, 30.0), a_job("b", 1.0, 30.0))
    assert finished["ns/a"] == pytest.approx(1 + 2 + 30, abs=0.01)
    assert finished["ns/b"] == pytest.approx(1 + 2 + 1 + 30, abs=0.01)


def test_a_job_sets_up_again_after_a_preemption() -> None:
    """On one GPU, a newcomer takes over at 12 s for 2 + 5 s; then the first sets up for 2 s once more."""
    finished = finishes(
        a_job("a", 0.0, 30.0),
        a_job("b", 12.0, 5.0),
        nodes="1x1",
        order="tiresias-las",
        thresholds_gpu_seconds=(10.0,),
    )
    assert finished["ns/b"] == pytest.approx(12 + 7, abs=0.01)
    assert finished["ns/a"] == pytest.approx(32 + 7 + 2, abs=0.01)


def test_who_sets_up_slows_no_job_that_trains_on_its_gpu() -> None:
    """Two jobs of one GPU need it all of the time: each trains at half of its speed, from the moment at which both train."""
    simulation = Simulation(
        [
            replace(a_job(name, at, 30.0), demand=Demand(share_percent=50))
            for name, at in (("a", 0.0), ("b", 10.0))
        ],
        make_nodes("1x1"),
        policies(order="fifo"),
        Costs(leave_seconds=0.0, restart_seconds=0.0),
        model=SettingUp(TIMES, Lanes(parallel_penalty_ratio=0.0)),
    )
    simulation.run()
    finished = {key: run.finish_seconds for key, run in simulation.runs.items()}
    assert finished["ns/a"] == pytest.approx(2 + 10 + 2 * 20, abs=0.01)
    assert finished["ns/b"] == pytest.approx(12 + 40 + 10, abs=0.01)
