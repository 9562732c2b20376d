"""Pollux' workloads: measured curves, and jobs that choose their batch size by goodput."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.scheduling import Demand, policies
from laneway.simulator import Costs, InputError, Simulation, load_trace, make_nodes, make_setup, write_trace
from laneway.simulator.application import Application, StepTime
from laneway.simulator.models.adaptive import Adaptive, Agent
from laneway.simulator.trace import TraceJob
from laneway.simulator.traces.pollux import read_applications
from laneway.simulator.traces.trace_format import ReadOptions
from laneway.simulator.training import Training

from tests.unit.simulator.builders import FREE, simulated
from tests.unit.simulator.curves import write_curves, write_workload


@pytest.fixture
def toy(tmp_path: Path) -> Application:
    write_curves(tmp_path / "traces")
    return read_applications(tmp_path / "traces")["toy"]


def a_trained(toy: Application, *, workers: int = 1, batch: int = 10, most: int | None = None) -> TraceJob:
    """A job of the toy application; elastic up to ``most`` workers."""
    training = Training(toy, batch, workers)
    demand = Demand(workers, min_workers=1 if most else None, max_workers=most)
    return TraceJob("default/a", demand, 0.0, training.duration_seconds, training=training)


@pytest.mark.parametrize(
    ("placement", "local_batch", "step_seconds"),
    [
        ((1,), 10, 1.0),
        ((2,), 15, 1.7),
        ((1, 1), 10, 1.6),
        ((2, 2), 20, 3.0),
        ((4, 4, 4, 4), 10, 3.0),
        ((2, 2, 2, 2), 15, 3.5),
    ],
    ids=["measured", "between", "two nodes", "twice two", "beyond", "beyond and between"],
)
def test_step_times_are_those_measured_and_lie_between_them(
    toy: Application, placement: tuple[int, ...], local_batch: int, step_seconds: float
) -> None:
    assert toy.step_time(placement, local_batch).step_seconds == pytest.approx(step_seconds)


def test_the_order_of_nodes_does_not_matter() -> None:
    steps = {(1, 2): [(10, StepTime(1.0, 0.5))], (1,): [(10, StepTime(1.0, 0.0))]}
    application = Application("toy", steps, [], {10: []} | {20: []})
    assert application.step_time((2, 1), 10) == application.step_time((1, 2), 10)


@pytest.mark.parametrize(
    ("placement", "local_batch", "says"),
    [
        ((1,), 30, "a local batch of 30 of toy was not measured: write 10 to 20"),
        ((4,) * 16, 10, "toy was not measured with 64 replicas on 16 nodes and a local batch of 10"),
    ],
)
def test_unmeasured_configurations_are_refused(
    toy: Application, placement: tuple[int, ...], local_batch: int, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        toy.step_time(placement, local_batch)


def test_gradients_lie_between_those_of_measured_batch_sizes(toy: Application) -> None:
    assert toy.gradients(10, 0) == (1.0, 10.0)
    assert toy.gradients(85, 1) == (1.0, pytest.approx(170.0))
    with pytest.raises(ValueError, match="batch size 161 of toy was not measured: write 10 to 160"):
        toy.gradients(161, 0)


@pytest.mark.parametrize(
    ("replicas", "batch", "local_batch", "passes"),
    [(1, 10, 10, 0), (1, 20, 10, 1), (2, 20, 10, 0), (2, 80, 20, 1), (4, 20, 10, 0), (16, 160, 10, 0)],
    ids=["alone", "alone beyond the initial", "two", "too large for memory", "too small", "the largest"],
)
def test_a_batch_size_is_made_up_of_local_batches(
    toy: Application, replicas: int, batch: int, local_batch: int, passes: int
) -> None:
    assert toy.batch_of(replicas, batch) == (local_batch, passes)


def test_a_rigid_job_takes_as_long_as_its_curves_say(toy: Application) -> None:
    job = a_trained(toy)
    assert job.duration_seconds == pytest.approx(200.0)
    run = simulated(job).runs["default/a"]
    assert run.finish_seconds == pytest.approx(200.0)


def test_a_larger_batch_is_worth_what_the_noise_says_in_each_epoch(toy: Application) -> None:
    gains = [
        (variance + 1) / (variance / 2 + 1) for _, variance in (toy.gradients(20, 0), toy.gradients(20, 1))
    ]
    expected = sum(100 * 1.2 / gain for gain in gains)
    assert a_trained(toy, workers=2, batch=20).duration_seconds == pytest.approx(expected)


def test_a_gang_over_two_nodes_is_slower_than_its_trace_says(toy: Application) -> None:
    job = a_trained(toy, workers=2, batch=20)
    run = simulated(job, nodes="2x1").runs["default/a"]
    assert run.finish_seconds == pytest.approx(job.duration_seconds * 1.6 / 1.2)


def elastic(*jobs: TraceJob, nodes: str, costs: Costs = FREE) -> Simulation:
    """The simulation of adaptive jobs under Pollux."""
    chosen = policies(order="pollux", elastic_options={"restart_seconds": 20.0})
    simulation = Simulation(jobs, make_nodes(nodes), chosen, costs, model=Adaptive())
    simulation.run()
    return simulation


def test_an_elastic_job_grows_by_doubling_and_is_done_sooner(toy: Application) -> None:
    run = elastic(a_trained(toy, most=8), nodes="2x4").runs["default/a"]
    assert run.finish_seconds is not None
    assert run.finish_seconds < 150
    assert run.rescales >= 2
    assert run.goodput is not None
    assert run.goodput.explored_replicas >= 4


def test_rigid_jobs_and_jobs_without_curves_run_as_in_the_trace(toy: Application) -> None:
    bare = TraceJob("default/bare", Demand(), 0.0, 70.0)
    rigid = TraceJob("default/rigid", Demand(), 0.0, 200.0, training=Training(toy, 10, 1))
    runs = elastic(bare, rigid, nodes="1x2").runs
    assert runs["default/bare"].finish_seconds == pytest.approx(70.0)
    assert runs["default/rigid"].finish_seconds == pytest.approx(200.0)


def test_a_restart_costs_what_the_costs_say(toy: Application) -> None:
    free, dear = (
        elastic(a_trained(toy, most=2), nodes="1x2", costs=costs).runs["default/a"]
        for costs in (FREE, Costs(start_seconds=0, leave_seconds=5, restart_seconds=10))
    )
    assert free.finish_seconds is not None
    assert dear.finish_seconds is not None
    assert dear.finish_seconds - free.finish_seconds == pytest.approx(15 * dear.rescales, rel=0.2)


def test_an_agent_reports_nothing_before_it_has_measured(toy: Application) -> None:
    agent = Agent(toy)
    assert agent.model is None
    assert agent.batch_on((2,)) == (10, 0)
    assert agent.measure((2,), 10, 0, epoch=0)
    assert not agent.measure((2,), 10, 0, epoch=1)
    assert agent.model is not None
    assert agent.model.efficiency.noise_scale == pytest.approx(10 * toy.gradients(20, 1)[1])
    local_batch, passes = agent.batch_on((2,))
    assert 2 * local_batch * (passes + 1) > 20


def test_a_workload_is_read_with_the_curves_beside_it(tmp_path: Path) -> None:
    write_curves(tmp_path / "traces")
    write_curves(tmp_path / "traces", "ncf")
    workload = write_workload(tmp_path / "workloads" / "w.csv", "b,20,ncf,1,20", "a,10,toy,2,20")
    read = load_trace(workload)
    assert read.format == "pollux"
    first, second = read.jobs
    assert (first.key, first.model, first.submit_seconds) == ("default/a", "toy", 10.0)
    assert (first.demand.workers, first.demand.min_workers, first.demand.max_workers) == (2, 1, 16)
    assert first.training is not None
    assert first.duration_seconds == first.training.duration_seconds
    assert not second.demand.elastic


def test_curves_may_be_elsewhere(tmp_path: Path) -> None:
    write_curves(tmp_path / "curves")
    workload = write_workload(tmp_path / "w.csv", "a,10,toy,2,20")
    with pytest.raises(InputError, match="put the folder of curves beside it as traces"):
        load_trace(workload)
    assert load_trace(workload, ReadOptions(curves=tmp_path / "curves")).jobs
    setup = make_setup("tiresias-las", None, [f"curves={tmp_path / 'curves'}"])
    assert setup.reading.curves == tmp_path / "curves"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("a,10,other,2,20", "line 2: application is 'other', which was not measured: write one of toy"),
        ("a,10,toy,17,20", "line 2: num_replicas is 17: write 1 to 16"),
        ("a,10,toy,2,9", "line 2: batch_size is 9: write 10 to 160"),
        ("a,x,toy,2,20", "line 2: time is 'x'"),
    ],
)
def test_a_wrong_line_is_reported(tmp_path: Path, line: str, says: str) -> None:
    write_curves(tmp_path / "traces")
    with pytest.raises(InputError, match=says):
        load_trace(write_workload(tmp_path / "workloads" / "w.csv", line))


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [
        (
            "placements.csv",
            "placement,local_bsz,step_time,sync_time\n10,10,1,0\n",
            "placement is '10': write a digit",
        ),
        ("placements.csv", "placement,local_bsz,step_time,sync_time\n1,ten,1,0\n", "local_bsz is 'ten'"),
        ("placements.csv", "local_bsz,step_time,sync_time\n10,1,0\n", "it has no column 'placement'"),
        ("validation-x.csv", "progress\n", "name it validation-<batch size>.csv"),
        ("validation-10.csv", "progress,grad_sqr,grad_var\n", "no validation-<batch size>.csv with epochs"),
    ],
)
def test_a_wrong_curve_is_reported(tmp_path: Path, file: str, text: str, says: str) -> None:
    (write_curves(tmp_path / "traces") / file).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=says):
        read_applications(tmp_path / "traces")


def test_our_own_format_does_not_hold_curves(toy: Application, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="default/a has measured curves"):
        write_trace([a_trained(toy)], tmp_path / "trace.csv")


def test_where_workers_may_change_jobs_adapt_unless_a_model_is_named() -> None:
    assert isinstance(make_setup("pollux", None, []).model, Adaptive)
    assert isinstance(make_setup("fifo", None, ["elastic=bftrainer"]).model, Adaptive)
    assert not isinstance(make_setup("pollux", None, ["model=alone"]).model, Adaptive)
    assert not isinstance(make_setup("fifo", None, []).model, Adaptive)


def test_an_agent_chooses_again_after_some_time() -> None:
    with pytest.raises(ValueError, match=r"tune_seconds is 0\.0: write more than 0"):
        Adaptive(tune_seconds=0.0)
