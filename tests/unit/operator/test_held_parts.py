"""What running jobs hold: all jobs on a GPU together never more than the GPU."""

from __future__ import annotations

import pytest
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import TrainingJobStatus, WorkerPlacementStatus
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.held_parts import HeldParts
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.execute import job_counters
from laneway.operator.lifecycle import accounting
from laneway.operator.namespace_metrics import NamespaceMetrics
from laneway.scheduling.config.operator_config import OperatorConfig
from prometheus_client import CollectorRegistry

from tests.unit.operator.builders import NOW, a_gpu_node, a_job, a_pod, a_view, write_of
from tests.unit.operator.builders.gauges import samples_of
from tests.unit.operator.builders.jobs import JobBuilder


def running(*gpus: str, percent: int = 100, counted: float = NOW) -> TrainingJobStatus:
    """A job whose workers have one of these GPUs each, with its service counted until then."""
    placement = tuple(
        WorkerPlacementStatus(worker=rank, node="n", gpus=(gpu,), share_percent=percent)
        for rank, gpu in enumerate(gpus)
    )
    return TrainingJobStatus(placement=placement, service_counted_at=format_time(counted))


def held_seconds(parts: HeldParts, uid: str, before: TrainingJobStatus, now: float) -> float:
    after = parts.counted(uid, before, accounting.counted(before, now), now)
    return after.held_gpu_milliseconds / 1000


@pytest.mark.parametrize(
    ("jobs", "want"),
    [
        ([running("g")], [[1.0]]),
        ([running("g", percent=30), running("g", percent=60)], [[0.3], [0.6]]),
        ([running("g"), running("g")], [[0.5], [0.5]]),
        ([running("g"), running("g", percent=50)], [[2 / 3], [1 / 3]]),
        ([running("g", "h"), running("g")], [[0.5, 1.0], [0.5]]),
        ([running("g", "g")], [[1.0]]),
        ([running("g", percent=200), running("h")], [[1.0], [1.0]]),
        ([running("g"), running("g").model_copy(update={"service_counted_at": None})], [[1.0], []]),
    ],
    ids=[
        "alone",
        "shares that fit",
        "two that take turns",
        "whole and half",
        "a gang and another on one of its GPUs",
        "two workers of a job on one GPU",
        "overcommitted memory",
        "a paused one holds nothing",
    ],
)
def test_what_a_job_holds_of_each_gpu(jobs: list[TrainingJobStatus], want: list[list[float]]) -> None:
    parts = HeldParts()
    for uid, status in enumerate(jobs):
        parts.update(str(uid), status, NOW)
    for uid, held in enumerate(want):
        assert [part for _, part in parts.of(str(uid))] == pytest.approx(held)


def test_time_alone_and_time_beside_another_count_as_they_were() -> None:
    """The other one comes after 100 s and goes after 50 s more; together they held a GPU for 200 s."""
    long, short = running("g"), running("g", counted=NOW + 100)
    parts = HeldParts()
    parts.update("long", long, NOW)
    parts.update("short", short, NOW + 100)
    assert held_seconds(parts, "short", short, NOW + 150) == pytest.approx(25)
    parts.forget("short", NOW + 150)
    assert held_seconds(parts, "long", long, NOW + 200) == pytest.approx(175)


def test_each_count_goes_on_from_the_one_before() -> None:
    parts, long = HeldParts(), running("g")
    parts.update("long", long, NOW)
    parts.update("short", running("g", counted=NOW + 100), NOW + 100)
    counted = parts.counted("long", long, accounting.counted(long, NOW + 120), NOW + 120)
    assert counted.held_gpu_milliseconds == 110_000
    parts.update("long", counted, NOW + 120)
    assert held_seconds(parts, "long", counted, NOW + 140) == pytest.approx(120)


def test_a_new_leader_takes_the_parts_that_it_finds() -> None:
    parts = HeldParts()
    first = running("g", counted=NOW - 100)
    parts.update("a", first, NOW)
    parts.update("b", running("g", counted=NOW - 100), NOW)
    assert held_seconds(parts, "a", first, NOW) == pytest.approx(50)


def test_a_run_that_was_not_seen_counts_beside_those_that_are_there() -> None:
    parts = HeldParts()
    parts.update("a", running("g"), NOW)
    assert held_seconds(parts, "b", running("g", counted=NOW - 10), NOW) == pytest.approx(5)


def test_service_that_is_taken_back_takes_back_what_was_held() -> None:
    parts = HeldParts()
    parts.update("a", running("g"), NOW)
    parts.update("b", running("g"), NOW)
    before = running("g").model_copy(
        update={"attained_service_gpu_milliseconds": 10_000, "held_gpu_milliseconds": 5_000}
    )
    after = before.model_copy(update={"attained_service_gpu_milliseconds": 4_000})
    assert parts.counted("a", before, after, NOW).held_gpu_milliseconds == 2_000


def on_one_gpu(name: str) -> JobBuilder:
    return a_job(name).placed("n1", at=NOW - 300).running(since=NOW - 60)


def test_two_jobs_in_turns_hold_one_gpu_and_attain_the_service_of_two() -> None:
    jobs = [on_one_gpu(name) for name in ("a", "b")]
    pods = [a_pod(job.record).running(since=NOW - 60).record for job in jobs]
    view = a_view([job.spec(suspend=True).record for job in jobs], pods, [a_gpu_node("n1")])
    cycle, registry = Cycle(OperatorConfig()), CollectorRegistry()
    counters = NamespaceMetrics(registry)
    result = cycle.run(view, WriteHistory({}, {}), NOW)
    for name in ("a", "b"):
        write = write_of(result, name)
        assert write is not None
        assert write.status.attained_service_gpu_milliseconds == 60_000
        assert write.status.held_gpu_milliseconds == 30_000
        job_counters.count(counters, write)
    assert registry.get_sample_value("laneway_held_gpu_seconds_total", {"namespace": "ns"}) == 60


def test_gauges_of_two_jobs_in_turns() -> None:
    jobs = [on_one_gpu(name).record for name in ("a", "b")]
    pods = [a_pod(job).running(since=NOW - 60).record for job in jobs]
    cycle = Cycle(OperatorConfig())
    cycle.run(a_view(jobs, pods, [a_gpu_node("n1")]), WriteHistory({}, {}), NOW)
    gauges = samples_of(cycle.gauges(NOW))
    for name in ("a", "b"):
        assert gauges["laneway_job_gpu_share_ratio", "ns", name, "n1", "n1/0"] == 1
        assert gauges["laneway_job_held_gpus", "ns", name, "n1", "n1/0"] == 0.5
        assert gauges["laneway_job_attained_service_gpu_seconds", "ns", name] == pytest.approx(60)
        assert gauges["laneway_job_held_gpu_seconds", "ns", name] == pytest.approx(30)
