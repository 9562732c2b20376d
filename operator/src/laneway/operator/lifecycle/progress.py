"""How far a job has come: from what its nodes' sessions say to ``status.progress``, and to how long the job is expected to run."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.api.conditions import is_true
from laneway.api.gpu_node import ReportStatus
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import ProgressStatus, TrainingJobStatus
from laneway.operator.lifecycle import accounting, transitions
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import SessionIndex


def progress_made(
    before: ProgressStatus | None, pods: Iterable[WorkerPod], sessions: SessionIndex, now_seconds: float
) -> ProgressStatus | None:
    """Return how far the gang has come; what was known before where its nodes say nothing new.

    The report of the lowest reporting rank counts, so that the loss does not jump between ranks. A new attempt keeps the
    previous attempt's progress until its first report: it resumes from a checkpoint, or soon reports otherwise.
    """
    found = [hold.session for pod in sorted(pods, key=lambda each: each.rank) for hold in sessions.of(pod)]
    if not any(session.iterations or session.report for session in found):
        return before
    report = next((session.report for session in found if session.report is not None), None)
    made = before or ProgressStatus()
    made = made if report is None else _with_report(made, report)
    made = made.model_copy(update={"iterations": max(session.iterations for session in found)})
    if before is not None and made == before:
        return before
    # What is left counts from the report on, which may be long ago, however often iterations are counted.
    updated_at = report.reported_at if report is not None else None
    return made.model_copy(update={"updated_at": updated_at or format_time(now_seconds)})


def _with_report(progress: ProgressStatus, report: ReportStatus) -> ProgressStatus:
    percent = None
    if report.step is not None and report.steps:
        percent = min(100, 100 * report.step // report.steps)
    return progress.model_copy(
        update={
            "step": report.step,
            "steps": report.steps,
            "percent": percent,
            "epoch": report.epoch,
            "loss": report.loss,
            "remaining_seconds": report.remaining_seconds,
        }
    )


def expected_seconds(
    status: TrainingJobStatus, now_seconds: float, template_seconds: float | None
) -> float | None:
    """Return how long a job runs in all: by its own word, else as long as others of its template; None: nobody knows.

    Args:
        status: with the time executed counted up to now.
        now_seconds: Unix time.
        template_seconds: how long others of its template ran.
    """
    progress = status.progress
    if progress is None or progress.remaining_seconds is None or progress.updated_at is None:
        return template_seconds
    ran_since_seconds = 0.0
    if is_true(status.conditions, ConditionType.RUNNING):
        started_seconds = transitions.since_seconds(status, ConditionType.RUNNING, now_seconds)
        ran_since_seconds = max(0.0, now_seconds - max(started_seconds, parse_time(progress.updated_at)))
    executed_seconds = accounting.executed_seconds(status)
    return max(0.0, executed_seconds - ran_since_seconds) + progress.remaining_seconds
