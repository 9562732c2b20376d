"""Numbers of workers with which a job fails.

A job may not run with each number of its range: its batch does not divide, or each of fewer workers needs more memory. One that fails twice
in a row with a number, before it has run for ten minutes with it, goes back to the last number with which it ran so long, and is not rescaled
to the other one again. So a rescale costs at most two failed attempts, and a job is rescaled to four such numbers at most.
"""

from __future__ import annotations

from laneway.api.rfc3339 import format_time
from laneway.api.training_job_status import FailedWorkersStatus, TrainingJobStatus
from laneway.operator.lifecycle import accounting
from laneway.operator.state.records.job_record import JobRecord
from laneway.scheduling.model.held_rescale import HeldRescale, HoldReason

FAILURES = 2
"""The failures in a row after which a number of workers is given up. One may have another cause."""

WORKED_SECONDS = 600.0
"""A number of workers works once an attempt has run so long with it: by then it has been through its first iterations."""


def with_working(status: TrainingJobStatus) -> TrainingJobStatus:
    """Return the status of an elastic job after an attempt, counted up to its end, with the number of workers that has worked."""
    if not status.selector or not status.attempt_workers or _ran_seconds(status) < WORKED_SECONDS:
        return status
    return status.model_copy(
        update={"working_workers": status.attempt_workers, "failed_workers": _others(status)}
    )


def noted(
    job: JobRecord, message: str, end_seconds: float, now_seconds: float, *, last: bool
) -> TrainingJobStatus:
    """Return the status of a job whose attempt has failed, with the failure if its number of workers may be the cause.

    Args:
        job: as it was when it failed.
        message: how it failed.
        end_seconds: when it failed.
        now_seconds: Unix time.
        last: whether the job has no restart left.
    """
    status = job.status
    if job.desired is None or job.working_workers in (None, status.attempt_workers):
        return status
    if _ran_seconds(accounting.counted(status, end_seconds)) >= WORKED_SECONDS:
        return status
    before = next((each for each in status.failed_workers if each.workers == status.attempt_workers), None)
    failures = 1 if before is None else before.failures + 1
    failed = FailedWorkersStatus(
        workers=status.attempt_workers,
        failures=failures,
        message=message,
        last=format_time(now_seconds),
        avoided=last or failures >= FAILURES,
    )
    return status.model_copy(update={"failed_workers": (*_others(status), failed)})


def given_up(status: TrainingJobStatus) -> FailedWorkersStatus | None:
    """Return the failures with the number of workers of the last attempt, if it is given up; None: it is not."""
    return next(
        (each for each in status.failed_workers if each.avoided and each.workers == status.attempt_workers),
        None,
    )


def held_back(job: JobRecord) -> HeldRescale | None:
    """Return why a job runs on with the workers that it has although its spec asks for others; None: failures are not why."""
    if job.desired is None or not job.placed or job.desired.spec.workers == job.attempt_workers:
        return None
    wanted = job.desired.spec.workers
    has = "1 worker" if job.attempt_workers == 1 else f"{job.attempt_workers} workers"
    again = "suspend the job and resume it."
    if wanted in job.status.avoided_workers:
        failed = next(each for each in job.status.failed_workers if each.workers == wanted)
        return _held(
            f"Running with {has}. It failed with {wanted} ({failed.message}). Write another number, or to try {wanted} again, {again}"
        )
    if job.keeps_workers:
        numbers = ", ".join(map(str, sorted(job.status.avoided_workers)))
        return _held(
            f"Running with {has}. It failed with {numbers} workers, and is not rescaled any more. To try {wanted}, {again}"
        )
    return None


def _held(message: str) -> HeldRescale:
    return HeldRescale(HoldReason.FAILED_BEFORE, message)


def _ran_seconds(status: TrainingJobStatus) -> float:
    """Return how long the current attempt has run."""
    return (status.executed_milliseconds - status.executed_before_attempt_milliseconds) / 1000


def _others(status: TrainingJobStatus) -> tuple[FailedWorkersStatus, ...]:
    return tuple(each for each in status.failed_workers if each.workers != status.attempt_workers)
