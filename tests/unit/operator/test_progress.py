"""How far a job has come: from sessions to its status, its metrics, and how long it is expected to run."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import ProfileStatus, ProgressStatus
from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.template_evidence import evidence_of, learnt
from laneway.operator.cycle.templates import known_template
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.progress import expected_seconds
from laneway.operator.metrics import Metrics
from laneway.operator.pacing import END_SETTLED_SECONDS
from laneway.operator.state.records.job_record import JobRecord
from laneway.scheduling.config.operator_config import OperatorConfig

from tests.unit.operator.builders import (
    NOW,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    decided,
    write_of,
)

REPORT: dict[str, Any] = {"step": 250, "steps": 1000, "epoch": 2, "loss": "NaN", "remainingSeconds": 90}


def gang(progress: ProgressStatus | None = None) -> JobRecord:
    job = a_job().gang(2).placed("n1", "n1").running()
    return job.status(progress=progress).record if progress else job.record


def progress_of(job: JobRecord, *figures: dict[str, Any], now: float = NOW) -> ProgressStatus | None:
    """What becomes of its progress when the workers' sessions say so."""
    pods = [a_pod(job, rank).running().record for rank in range(len(figures))]
    sessions = {rank: [a_session(pods[rank], **each)] for rank, each in enumerate(figures)}
    view = a_view([job], pods, [a_gpu_node("n1", sessions=sessions)])
    write = write_of(decided(view, now), job.name)
    return job.status.progress if write is None else write.status.progress


def test_progress_takes_the_first_workers_report_and_the_highest_iteration_count() -> None:
    made = progress_of(
        gang(), {"iterations": 251, "report": REPORT}, {"iterations": 253, "report": {"loss": "0.5"}}
    )
    assert made == ProgressStatus(
        iterations=253,
        step=250,
        steps=1000,
        percent=25,
        epoch=2,
        loss="NaN",
        remaining_seconds=90,
        updated_at=format_time(NOW),
    )


def test_a_gang_of_which_another_worker_reports_has_its_word() -> None:
    made = progress_of(gang(), {"iterations": 7}, {"iterations": 8, "report": REPORT})
    assert made is not None
    assert (made.step, made.loss) == (250, "NaN")


def test_without_a_report_the_iterations_are_counted() -> None:
    made = progress_of(gang(), {"iterations": 7}, {"iterations": 8})
    assert made == ProgressStatus(iterations=8, updated_at=format_time(NOW))


def test_nothing_is_said_of_a_job_that_has_done_nothing() -> None:
    assert progress_of(gang(), {"iterations": 0}, {"iterations": 0}) is None


def test_a_new_attempt_keeps_the_word_of_the_one_before_until_it_has_its_own() -> None:
    before = ProgressStatus(iterations=250, step=250, steps=1000, percent=25, loss="0.5")
    made = progress_of(gang(before), {"iterations": 3}, {"iterations": 0})
    assert made is not None
    assert (made.iterations, made.step, made.percent, made.loss) == (3, 250, 25, "0.5")


def test_what_has_not_changed_is_not_newer() -> None:
    first = progress_of(gang(), {"iterations": 5, "report": REPORT})
    assert first is not None
    later = progress_of(gang(first), {"iterations": 5, "report": REPORT}, now=NOW + 30)
    assert later == first


def test_what_is_left_counts_from_the_report_on_however_often_iterations_are_counted() -> None:
    reported_at = format_time(NOW - 40)
    made = progress_of(gang(), {"iterations": 5, "report": {**REPORT, "reportedAt": reported_at}})
    assert made is not None
    assert made.updated_at == reported_at
    later = progress_of(gang(made), {"iterations": 9, "report": {**REPORT, "reportedAt": reported_at}})
    assert later == made.model_copy(update={"iterations": 9})


def test_progress_alone_is_written_no_more_often_than_figures_are() -> None:
    job = gang(ProgressStatus(iterations=1))
    pods = [a_pod(job, rank).running().record for rank in range(2)]
    view = a_view([job], pods, [a_gpu_node("n1", sessions={0: [a_session(pods[0], iterations=9)]})])
    assert write_of(decided(view, NOW, {job.uid: NOW - 1}), job.name) is None
    interval_seconds = OperatorConfig().cycle.explain_seconds
    write = write_of(decided(view, NOW, {job.uid: NOW - interval_seconds}), job.name)
    assert write is not None
    assert write.status.progress is not None
    assert write.status.progress.iterations == 9


def test_a_job_that_reports_is_expected_to_run_for_what_it_has_run_and_what_is_left() -> None:
    reported = ProgressStatus(step=1, remaining_seconds=90, updated_at=format_time(NOW - 3))
    status = gang(reported).status.model_copy(update={"executed_milliseconds": 20_000})
    assert parse_time(format_time(NOW - 5)) == NOW - 5, "it runs since then"
    assert expected_seconds(status, NOW, 500.0) == pytest.approx(20 - 3 + 90)


def test_a_word_of_the_attempt_before_is_not_aged_by_the_time_in_between() -> None:
    reported = ProgressStatus(step=1, remaining_seconds=90, updated_at=format_time(NOW - 3000))
    status = gang(reported).status.model_copy(update={"executed_milliseconds": 20_000})
    assert expected_seconds(status, NOW, None) == pytest.approx(20 - 5 + 90)
    waiting = a_job().visited().status(progress=reported, executed_milliseconds=20_000).record.status
    assert expected_seconds(waiting, NOW, None) == pytest.approx(20 + 90)


def test_a_job_that_says_nothing_is_expected_to_run_as_long_as_others_of_its_template() -> None:
    silent = a_job().visited().record
    succeeded = [
        a_job(name)
        .placed("n1")
        .running()
        .ran()
        .after(transitions.succeeded, "done", NOW, NOW)
        .status(executed_milliseconds=ran)
        .record
        for name, ran in (("a", 100_000), ("b", 200_000))
    ]
    failed = (
        a_job("c")
        .placed("n1")
        .running()
        .ran()
        .after(transitions.failed, "Error", "bad", NOW, NOW)
        .status(executed_milliseconds=7000)
        .record
    )
    shown = [each for job in (*succeeded, failed, silent) if (each := evidence_of(job)) is not None]
    template = known_template(learnt(None, shown, NOW + END_SETTLED_SECONDS), ())
    assert template.expected_seconds == 150
    assert expected_seconds(silent.status, NOW, template.expected_seconds) == 150
    assert expected_seconds(silent.status, NOW, None) is None


def test_the_metrics_of_a_job_say_how_far_it_is() -> None:
    measured = ProfileStatus(
        persistent_bytes=1,
        ephemeral_bytes=1,
        iterations=9,
        iteration_microseconds=2000,
        data_microseconds=500,
        model_bytes=100,
        largest_tensor_bytes=80,
    )
    reported = ProgressStatus(step=250, steps=1000, loss="NaN", remaining_seconds=90)
    job = a_job().placed("n1").running().status(profile=measured, progress=reported).record
    silent = a_job("silent").placed("n1").running().record
    metrics, cycle = Metrics(), Cycle(OperatorConfig())
    cycle.run(a_view([job, silent], [a_pod(job).running().record]), WriteHistory({}, {}), NOW)
    metrics.show(lambda: cycle.gauges(NOW))
    lines = {line for line in metrics.render().decode().splitlines() if 'training_job="job"' in line}
    for name, value in {
        "laneway_job_step": "250.0",
        "laneway_job_progress_ratio": "0.25",
        "laneway_job_loss": "NaN",
        "laneway_job_remaining_seconds": "90.0",
        "laneway_job_iteration_seconds": "0.002",
        "laneway_job_data_seconds": "0.0005",
        "laneway_job_model_bytes": "100.0",
        "laneway_job_largest_tensor_bytes": "80.0",
    }.items():
        assert f'{name}{{namespace="ns",training_job="job"}} {value}' in lines
        assert f'{name}{{namespace="ns",training_job="silent"' not in metrics.render().decode()
