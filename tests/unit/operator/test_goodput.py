"""The goodput of a job: what its workers' sessions show, its metrics, and the model that the elastic policies get."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laneway.api.goodput_status import MAX_OBSERVATIONS, BatchStatus, GoodputStatus, StepObservation
from laneway.api.schema import MAX_COUNTER
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.scheduler_jobs import scheduler_job
from laneway.operator.cycle.templates import known_template
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.execute.manifests import worker_pod
from laneway.operator.lifecycle.goodput import chosen_batch, goodput_of, goodput_seen
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.metrics import Metrics
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.sessions import SessionIndex
from laneway.scheduling import JobState
from laneway.scheduling.config.operator_config import OperatorConfig
from laneway.scheduling.model.goodput import consolidated, goodputs
from laneway.scheduling.model.throughput import ThroughputModel

from tests.unit.operator.builders import (
    NOW,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    decided,
    placement_on,
    write_of,
)
from tests.unit.operator.builders.jobs import JobBuilder

BATCH: dict[str, Any] = {
    "ranks": 2,
    "localBatch": 64,
    "passes": 2,
    "initialBatch": 128,
    "maxBatch": 1024,
    "maxLocalBatch": 64,
    "noiseScale": 384,
}
MEASURED: dict[str, Any] = {
    "profiled": True,
    "iterations": 9,
    "iterationMicroseconds": 400_000,
    "dataMicroseconds": 100_000,
}


def gang(goodput: GoodputStatus | None = None) -> JobRecord:
    job = a_job().gang(2).placed("n1", "n1").running()
    return job.status(goodput=goodput).record if goodput else job.record


def goodput_after(job: JobRecord, *batches: dict[str, Any] | None, **figures: Any) -> GoodputStatus | None:
    """What becomes of its goodput when the workers' sessions say so."""
    pods = [a_pod(job, rank).running().record for rank in range(len(batches))]
    sessions = {
        rank: [a_session(pods[rank], **{**MEASURED, **figures}, **({"batch": batch} if batch else {}))]
        for rank, batch in enumerate(batches)
    }
    write = write_of(decided(a_view([job], pods, [a_gpu_node("n1", sessions=sessions)]), NOW), job.name)
    return job.status.goodput if write is None else write.status.goodput


def test_a_gangs_goodput_comes_from_its_batch_its_time_and_the_noise() -> None:
    found = goodput_after(gang(), BATCH, {**BATCH, "noiseScale": 386})
    assert found is not None
    assert found.batch == BatchStatus.model_validate({**BATCH, "noiseScale": 385})
    assert found.efficiency_percent == round(100 * (385 + 128) / (385 + 256))
    assert found.milli_samples_per_second == round(256 / 0.5 * 1000 * (385 + 128) / (385 + 256))
    assert found.observations == (
        StepObservation(nodes=1, workers=2, local_batch=64, pass_microseconds=250_000),
    )


def test_a_status_of_an_earlier_operator_gets_its_goodput_under_the_name_with_the_unit() -> None:
    known = goodput_after(gang(), BATCH, BATCH)
    assert known is not None
    stored = known.to_json()
    stored["goodputMillisamples"] = stored.pop("milliSamplesPerSecond")
    assert goodput_after(gang(GoodputStatus.model_validate(stored)), BATCH, BATCH) == known


def test_nothing_is_claimed_where_a_client_does_not_know() -> None:
    assert goodput_after(gang(), None, None) is None, "clients of an earlier release"
    assert goodput_after(gang(), BATCH, None) is None, "one worker has not begun"
    unknown = goodput_after(gang(), *[{**BATCH, "noiseScale": None}] * 2)
    assert unknown is not None
    assert (unknown.efficiency_percent, unknown.milli_samples_per_second) == (None, None)
    fixed = {**BATCH, "initialBatch": 256, "maxBatch": 256, "noiseScale": None}
    same = goodput_after(gang(), fixed, fixed)
    assert same is not None
    assert (same.efficiency_percent, same.milli_samples_per_second) == (100, 512_000)


def test_a_step_time_that_hardly_differs_is_no_news() -> None:
    first = goodput_after(gang(), BATCH, BATCH)
    assert first is not None
    assert goodput_after(gang(first), BATCH, BATCH, iterationMicroseconds=410_000) == first
    later = goodput_after(gang(first), BATCH, BATCH, iterationMicroseconds=900_000)
    assert later is not None
    assert [seen.pass_microseconds for seen in later.observations] == [500_000]


def test_a_job_keeps_its_last_layouts() -> None:
    old = tuple(
        StepObservation(nodes=1, workers=workers, local_batch=8, pass_microseconds=1000)
        for workers in range(3, 3 + MAX_OBSERVATIONS)
    )
    before = GoodputStatus(batch=BatchStatus.model_validate(BATCH), observations=old)
    found = goodput_after(gang(before), BATCH, BATCH)
    assert found is not None
    assert found.observations[:-1] == old[1:]
    assert found.observations[-1].workers == 2


def elastic(workers: int) -> JobBuilder:
    return a_job().spec(workers=workers, minWorkers=1, maxWorkers=4).placed(*["n1"] * workers).running()


def observed_with(job: JobRecord, workers: int, **figures: Any) -> TrainingJobStatus:
    """The job's status after its workers have reported their steps."""
    batch = {**BATCH, "ranks": workers}
    pods = [a_pod(job, rank).running().record for rank in range(workers)]
    figures = {**MEASURED, "batch": batch, **figures}
    sessions = {rank: [a_session(pod, **figures)] for rank, pod in enumerate(pods)}
    write = write_of(decided(a_view([job], pods, [a_gpu_node("n1", sessions=sessions)]), NOW), job.name)
    assert write is not None
    return write.status


def after_a_rescale(to_workers: int, template: dict[str, Any] | None = None) -> JobRecord:
    """A job that showed its goodput with 2 workers, and runs with others."""
    first = observed_with(elastic(2).record, 2)
    assert first.execution is not None
    later = elastic(to_workers).status(goodput=first.goodput, execution=first.execution, attempt=2)
    return (later.spec(template=template) if template else later).record


def test_observations_survive_a_change_of_workers() -> None:
    """The elastic policies compare numbers of workers with what the job has shown."""
    status = observed_with(after_a_rescale(4), 4)
    assert status.goodput is not None
    assert [each.workers for each in status.goodput.observations] == [2, 4]
    model = goodput_of(status)
    assert model is not None
    assert model.explored_replicas == 4
    assert model.limits.max_local_batch == 64


def test_observations_of_another_script_do_not_survive() -> None:
    template = {"spec": {"containers": [{"name": "trainer", "image": "another"}]}}
    status = observed_with(after_a_rescale(4, template), 4)
    assert status.goodput is not None
    assert [each.workers for each in status.goodput.observations] == [4]


def test_a_batch_counts_from_the_first_timed_step_with_it() -> None:
    job = after_a_rescale(4)
    status = observed_with(job, 4, iterationMicroseconds=0, dataMicroseconds=0)
    assert status.goodput == job.status.goodput


_HUGE = 2**53


@pytest.mark.parametrize("size", [1, 2**20, 2**40, _HUGE])
@pytest.mark.parametrize("microseconds", [1, _HUGE])
@pytest.mark.parametrize("name", ["ranks", "localBatch", "passes", "initialBatch", "maxBatch", "noiseScale"])
def test_no_figure_that_a_client_makes_up_is_written_again_and_again(
    name: str, microseconds: int, size: int
) -> None:
    made_up = {**BATCH, "maxLocalBatch": max(64, size), name: size}
    first = goodput_after(gang(), made_up, made_up, iterationMicroseconds=microseconds)
    if first is None:
        return
    stored = GoodputStatus.model_validate(first.to_json())
    assert goodput_after(gang(stored), made_up, made_up, iterationMicroseconds=microseconds) == stored
    model = goodput_of(TrainingJobStatus(goodput=stored))
    assert model is None or 0 <= model.best(consolidated(4, 8)).goodput < float("inf")


def status_of(*observations: StepObservation, **batch: Any) -> TrainingJobStatus:
    seen = BatchStatus.model_validate({**BATCH, **batch})
    return TrainingJobStatus(goodput=GoodputStatus(batch=seen, observations=observations))


def test_the_model_predicts_layouts_in_which_the_job_has_not_run() -> None:
    truth = ThroughputModel(0.02, 0.001, intranode_seconds=0.01, intranode_seconds_per_replica=0.002)
    seen = [
        StepObservation(
            nodes=1,
            workers=workers,
            local_batch=local_batch,
            pass_microseconds=round(
                1e6 * truth.step_seconds(float(local_batch), 0.0, truth.network_seconds(1, workers))
            ),
        )
        for workers in (1, 2, 3)
        for local_batch in (32, 64, 128)
    ]
    model = goodput_of(status_of(*seen))
    assert model is not None
    assert model.explored_replicas == 3
    assert (model.limits.max_batch, model.limits.max_local_batch) == (1024, 64)
    assert (model.efficiency.initial_batch, model.efficiency.noise_scale) == (128, 384)
    predicted = model.throughput.step_seconds(64.0, 0.0, model.throughput.network_seconds(1, 4))
    assert predicted == pytest.approx(truth.step_seconds(64.0, 0.0, truth.network_seconds(1, 4)), rel=0.1)
    assert model.best(consolidated(4, 8)).goodput > model.best(consolidated(1, 8)).goodput


@pytest.mark.parametrize(
    "status",
    [
        pytest.param(TrainingJobStatus(), id="nothing is known"),
        pytest.param(status_of(), id="no step was timed"),
    ],
)
def test_there_is_no_model_without_a_step_time(status: TrainingJobStatus) -> None:
    assert goodput_of(status) is None


def test_a_batch_that_contradicts_itself_makes_no_error() -> None:
    seen = StepObservation(nodes=4, workers=2, local_batch=64, pass_microseconds=1)
    assert goodput_of(status_of(seen, initialBatch=2**40, maxBatch=1, maxLocalBatch=1, ranks=1)) is not None
    assert goodput_seen(None, (), SessionIndex()) is None


def test_the_metrics_of_a_job_say_its_goodput() -> None:
    known = goodput_after(gang(), BATCH, BATCH)
    job = gang(known)
    metrics, cycle = Metrics(), Cycle(OperatorConfig())
    view = a_view([job], [a_pod(job, rank).running().record for rank in range(2)])
    cycle.run(view, WriteHistory({}, {}), NOW)
    metrics.show(lambda: cycle.gauges(NOW))
    lines = metrics.render().decode().splitlines()
    labels = f'{{namespace="ns",training_job="{job.name}"}}'
    assert f"laneway_job_goodput_samples_per_second{labels} 409.6" in lines
    assert f"laneway_job_statistical_efficiency_ratio{labels} 0.8" in lines
    assert f"laneway_job_gradient_noise_scale_samples{labels} 384.0" in lines


@pytest.mark.parametrize("elastic", [True, False])
def test_only_an_elastic_policy_gets_the_model(elastic: bool) -> None:
    seen = StepObservation(nodes=1, workers=2, local_batch=64, pass_microseconds=100_000)
    job = gang(status_of(seen).goodput)
    reconciled = ReconciledJob(job, JobState.RUNNING, tuple(placement_on("n1", "n1")))
    model = scheduler_job(reconciled, (), known_template(None, ()), NOW, elastic=elastic).goodput
    assert (model is not None) == elastic


def steps_of(truth: ThroughputModel, *layouts: tuple[int, int]) -> tuple[StepObservation, ...]:
    """What a job of this model shows with some workers on a node, each with a local batch."""
    return tuple(
        StepObservation(
            nodes=1,
            workers=workers,
            local_batch=local_batch,
            pass_microseconds=round(
                1e6 * truth.step_seconds(float(local_batch), 0.0, truth.network_seconds(1, workers))
            ),
        )
        for workers, local_batch in layouts
    )


TRUTH = ThroughputModel(0.02, 0.001, intranode_seconds=0.05, intranode_seconds_per_replica=0.01)
SEEN = steps_of(TRUTH, (1, 32), (1, 64), (2, 64), (2, 128))


def waiting(**batch: Any) -> JobRecord:
    """An elastic job that has run and is to start with four workers."""
    job = a_job("e").spec(workers=4, minWorkers=1, maxWorkers=4).visited()
    return job.status(goodput=status_of(*SEEN, **batch).goodput, attempt=3, attempt_workers=2).record


def start_of(job: JobRecord) -> tuple[int, set[str | None]]:
    """The batch in the status of a job that starts, and in its workers' environment."""
    write = write_of(decided(a_view([job], [], [a_gpu_node("n1", gpus=4)]), NOW), job.name)
    assert write is not None
    assert len(write.creates) == write.status.workers
    assert job.desired is not None
    pods = [
        worker_pod(job, job.desired.spec, worker, write.status.attempt, batch=write.status.attempt_batch)
        for worker in write.creates
    ]
    variables = [
        {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]} for pod in pods
    ]
    return write.status.attempt_batch, {each.get("LANEWAY_BATCH") for each in variables}


def test_an_attempt_of_an_elastic_job_gets_the_batch_of_the_highest_goodput() -> None:
    job = waiting(noiseScale=4000)
    model = goodput_of(job.status)
    assert model is not None
    want = model.best(consolidated(4, 4)).batch(4)
    assert 128 < want <= 1024
    assert start_of(job) == (want, {str(want)})
    noiseless = waiting(noiseScale=0)
    assert start_of(noiseless) == (128, {"128"}), "a larger batch would be wasted"


@pytest.mark.parametrize(
    "job",
    [
        pytest.param(waiting(noiseScale=None), id="the noise is not known"),
        pytest.param(waiting(initialBatch=256, maxBatch=256), id="the script keeps its batch"),
        pytest.param(
            a_job("e").gang(4).visited().status(goodput=status_of(*SEEN).goodput).record,
            id="a job that is not elastic",
        ),
        pytest.param(a_job("e").spec(workers=4, minWorkers=1, maxWorkers=4).record, id="nothing is known"),
    ],
)
def test_no_batch_is_chosen_otherwise(job: JobRecord) -> None:
    assert start_of(job) == (0, {None})


COUNTS = st.integers(1, 2**53) | st.integers(1, 64)
OBSERVATIONS = st.builds(
    StepObservation,
    nodes=st.integers(1, 8) | COUNTS,
    workers=st.integers(1, 16) | COUNTS,
    local_batch=COUNTS,
    pass_microseconds=COUNTS,
)
BATCHES = st.fixed_dictionaries(
    {
        **dict.fromkeys(
            ("ranks", "localBatch", "passes", "initialBatch", "maxBatch", "maxLocalBatch"), COUNTS
        ),
        "noiseScale": st.none() | st.integers(0, 2**53),
    }
)


@settings(max_examples=60)
@given(st.lists(OBSERVATIONS, min_size=1, max_size=6), BATCHES, st.integers(1, 4))
@example([StepObservation(nodes=1, workers=1, local_batch=8, pass_microseconds=1000)], BATCH, 4)
@example([StepObservation(nodes=1, workers=2, local_batch=8, pass_microseconds=1000)] * 4, BATCH, 4)
@example(
    [
        StepObservation(nodes=1, workers=2, local_batch=8, pass_microseconds=1),
        StepObservation(nodes=1, workers=2, local_batch=9, pass_microseconds=2**53),
    ],
    BATCH,
    4,
)
def test_no_report_makes_a_figure_that_is_none(
    observations: list[StepObservation], batch: dict[str, Any], workers: int
) -> None:
    """One point, equal points and outliers too."""
    status = TrainingJobStatus(
        goodput=GoodputStatus(batch=BatchStatus.model_validate(batch), observations=tuple(observations))
    )
    chosen = chosen_batch(status, placement_on(*["n1"] * workers))
    assert chosen == 0 or workers <= chosen <= max(batch["maxBatch"], batch["initialBatch"])
    model = goodput_of(status)
    if model is not None:
        for value in goodputs(model, 8, 4):
            assert math.isfinite(value)
            assert value >= 0


@settings(max_examples=100)
@given(BATCHES, COUNTS | st.just(0), COUNTS | st.just(0))
def test_no_report_makes_a_status_that_the_api_server_refuses(
    batch: dict[str, Any], iteration: int, data: int
) -> None:
    found = goodput_after(gang(), batch, batch, iterationMicroseconds=iteration, dataMicroseconds=data)
    if found is None:
        return  # no training has such a batch
    numbers = [value for value in found.to_json().values() if isinstance(value, int)]
    assert all(0 <= value <= MAX_COUNTER for value in numbers)
    TrainingJobStatus.model_validate(TrainingJobStatus(goodput=found).to_json())
