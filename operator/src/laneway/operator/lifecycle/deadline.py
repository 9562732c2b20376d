"""``activeDeadlineSeconds``: how long a job may run. Time in which it waits or is paused does not count, but the spec may change in it."""

from __future__ import annotations

import math

from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.lifecycle import accounting, transitions
from laneway.operator.lifecycle.reconciled_job import JobEvent, ReconciledJob


def deadline_due_seconds(
    status: TrainingJobStatus, deadline_seconds: int | None, now_seconds: float
) -> float:
    """Return when a job reaches its deadline if it goes on as it does; infinite where it has none, or does not run."""
    if deadline_seconds is None or status.service_counted_at is None:
        return math.inf
    return now_seconds + _left_seconds(status, deadline_seconds, now_seconds)


def past_deadline(
    reconciled: ReconciledJob, deadline_seconds: int | None, now_seconds: float
) -> ReconciledJob | None:
    """Return where a job stands that has run for as long as it may, or longer; None where it may still run."""
    status = reconciled.job.status
    if deadline_seconds is None or _left_seconds(status, deadline_seconds, now_seconds) > 0:
        return None
    message = f"The job ran for {deadline_seconds} s, the limit of spec.activeDeadlineSeconds."
    failed = transitions.failed(status, "DeadlineExceeded", message, now_seconds, now_seconds)
    return reconciled.becomes(failed, JobEvent("Failed", message, warning=True))


def _left_seconds(status: TrainingJobStatus, deadline_seconds: int, now_seconds: float) -> float:
    return deadline_seconds - accounting.executed_seconds(accounting.counted(status, now_seconds))
