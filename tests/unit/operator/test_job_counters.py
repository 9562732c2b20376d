"""What the counters and histograms of a namespace say after a status was written."""

from __future__ import annotations

import pytest
from laneway.api.attempt_status import AttemptOutcome
from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import ProgressStatus
from laneway.operator.cycle.held_parts import HeldParts
from laneway.operator.execute import job_counters
from laneway.operator.lifecycle import transitions
from laneway.operator.namespace_metrics import NamespaceMetrics
from laneway.scheduling import PreemptionAction
from prometheus_client import CollectorRegistry

from tests.unit.operator.builders import NOW, a_job, a_write
from tests.unit.operator.builders.jobs import JobBuilder


def counted(job: JobBuilder, *step: object) -> dict[tuple[str, ...], float]:
    """The samples other than 0 once a step of ``transitions`` is written, by name and labels."""
    before, parts = job.record, HeldParts()
    parts.update(before.uid, before.status, NOW)
    after = parts.counted(before.uid, before.status, job.after(*step).record.status, NOW)
    registry = CollectorRegistry()
    job_counters.count(NamespaceMetrics(registry), a_write(before, after))
    samples = [sample for metric in registry.collect() for sample in metric.samples]
    assert {sample.labels["namespace"] for sample in samples} == {"ns"}
    return {
        (
            sample.name.removeprefix("laneway_"),
            *(v for k, v in sample.labels.items() if k != "namespace"),
        ): sample.value
        for sample in samples
        if sample.value and not sample.name.endswith(("_created", "_bucket"))
    }


def a_running_job(*, saved_seconds_ago: float | None = None, resumes: bool | None = None) -> JobBuilder:
    """Two workers with 40 % each that have run for 100 s."""
    job = a_job().gang(2).share(40).placed("n1", "n2", percent=40, at=NOW - 110).running(since=NOW - 100)
    if saved_seconds_ago is None:
        return job
    progress = ProgressStatus(
        unsaved_since=format_time(NOW - saved_seconds_ago),
        saved_executed_milliseconds=round(1000 * (100 - saved_seconds_ago)),
        resumes=resumes,
    )
    return job.status(progress=progress)


def test_a_preemption_counts_what_was_held_and_what_no_checkpoint_has() -> None:
    job = a_running_job(saved_seconds_ago=30)
    assert counted(job, transitions.preempted, "HigherQueue", "Preempted.", NOW) == {
        ("held_gpu_seconds_total",): pytest.approx(80),
        ("lost_gpu_seconds_total", "Preempted"): pytest.approx(24),
        ("preemptions_total", "Evict", "HigherQueue"): 1,
    }


def test_a_job_that_pauses_loses_nothing() -> None:
    job = a_running_job(saved_seconds_ago=30)
    step = (
        transitions.asked_to_pause,
        PreemptionAction.OFFLOAD,
        "HigherPriority",
        "Preempted.",
        NOW,
        "ns/other",
    )
    assert counted(job, *step) == {("preemptions_total", "Offload", "HigherPriority"): 1}


def test_a_paused_job_that_is_evicted_is_preempted_once() -> None:
    job = a_running_job(saved_seconds_ago=30).after(
        transitions.asked_to_pause, PreemptionAction.PAUSE, "HigherQueue", "Preempted.", NOW, "ns/other"
    )
    figures = counted(job, transitions.preempted, "HigherQueue", "Paused for too long.", NOW)
    assert not any(name == "preemptions_total" for name, *_ in figures)
    assert figures["lost_gpu_seconds_total", "Preempted"] == pytest.approx(24)


def test_a_job_that_is_known_to_start_over_loses_the_whole_attempt() -> None:
    job = a_running_job(saved_seconds_ago=30, resumes=False)
    figures = counted(job, transitions.rescaled, 3, "More GPUs are free.", NOW)
    assert figures["lost_gpu_seconds_total", "Rescaled"] == pytest.approx(80)
    assert figures["rescales_total",] == 1


def test_unknown_work_counts_as_saved() -> None:
    figures = counted(a_running_job(), transitions.restarted, "WorkerFailed", "It failed.", NOW, NOW)
    assert figures == {("held_gpu_seconds_total",): pytest.approx(80), ("restarts_total",): 1}


@pytest.mark.parametrize(
    ("outcome", "step"),
    [
        ("Suspended", (transitions.suspended, "Stopped.", NOW)),
        ("Failed", (transitions.restarted, "OOMKilled", "It failed.", NOW, NOW)),
        ("Disrupted", (transitions.unplaced, AttemptOutcome.DISRUPTED, "NodeLost", "Stopped.", NOW, NOW)),
    ],
)
def test_a_loss_has_its_cause(outcome: str, step: tuple[object, ...]) -> None:
    figures = counted(a_running_job(saved_seconds_ago=10), *step)
    assert figures["lost_gpu_seconds_total", outcome] == pytest.approx(8)


def test_the_end_of_a_job_counts_its_completion_time_and_slowdown() -> None:
    """It was created 100 s ago and ran for 50 s."""
    job = a_job().placed("n1").running(since=NOW - 50)
    figures = counted(job, transitions.succeeded, "They ended.", NOW, NOW)
    assert figures["job_completion_duration_seconds_sum", "succeeded"] == pytest.approx(100)
    assert figures["job_slowdown_ratio_sum",] == pytest.approx(2)
    assert not any(name == "lost_gpu_seconds_total" for name, *_ in figures)


def test_a_failed_job_has_no_slowdown() -> None:
    job = a_running_job(saved_seconds_ago=10)
    figures = counted(job, transitions.failed, "WorkerFailed", "It failed.", NOW, NOW)
    assert figures["job_completion_duration_seconds_count", "failed"] == 1
    assert not any(name.startswith("job_slowdown") for name, *_ in figures)
