"""What a rescale costs a job: from the stop to the first turn of the attempt with another number of workers.

Time in which the job waits for GPUs does not count: it depends on the other jobs. An attempt after the rescale that does not start leaves
the cost unknown, because the next one says little about it.
"""

from __future__ import annotations

from laneway.api.job_conditions import ConditionType
from laneway.api.names import JOB_UID_LABEL
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import RescaleStatus, TrainingJobStatus
from laneway.operator.lifecycle.reconciled_job import JobEvent, ReconcileContext
from laneway.operator.state.records.job_record import JobRecord

RESCALED = "Rescaled"
"""Reason of the event that a job runs with another number of workers."""


def with_selector(job: JobRecord) -> TrainingJobStatus:
    """Return the status with the selector of an elastic job's workers, which the scale subresource reports; of other jobs, without."""
    if job.desired is None:
        return job.status
    selector = f"{JOB_UID_LABEL}={job.uid}" if job.desired.spec.elastic else ""
    return (
        job.status
        if job.status.selector == selector
        else job.status.model_copy(update={"selector": selector})
    )


def counted(status: TrainingJobStatus, running_seconds: float) -> TrainingJobStatus:
    """Return the status with the cost of the rescale before this attempt, up to the start of its workers."""
    rescale = status.rescale
    if rescale is None or not _restarts_from(rescale, status) or rescale.cost_milliseconds is not None:
        return status
    return status.model_copy(update={"rescale": _with_cost(rescale, status, running_seconds)})


def completed(status: TrainingJobStatus, running_seconds: float) -> TrainingJobStatus:
    """Return the status of a job whose workers all run, with the end of the rescale before."""
    rescale = status.rescale
    if rescale is None or rescale.completed_at is not None:
        return status
    done = rescale.model_copy(update={"completed_at": format_time(running_seconds)})
    return status.model_copy(update={"rescale": done})


def completion(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[JobEvent, ...]:
    """Return the event of a job that now runs with another number of workers than before its rescale."""
    was, done = before.rescale, after.rescale
    if was is None or done is None or was.completed_at == done.completed_at:
        return ()
    workers = len(after.placement)
    if workers == done.from_workers:
        return ()
    return (JobEvent(RESCALED, f"Rescaled from {done.from_workers} to {workers} workers."),)


def with_first_turn(status: TrainingJobStatus, turns: int, context: ReconcileContext) -> TrainingJobStatus:
    """Return the status with the cost of the last rescale up to the first turn, if its attempt has taken one by now.

    An operator that has not watched since the start of the workers does not know when that was.

    Args:
        status: before this reconciliation.
        turns: that the job has taken by now.
        context: the moment, and since when this replica has watched.
    """
    rescale = status.rescale
    if (
        rescale is None
        or rescale.trained
        or rescale.cost_milliseconds is None
        or not _restarts_from(rescale, status)
        or turns <= status.turns_before_attempt
    ):
        return status
    watched = context.watched_since_seconds <= _running_since_seconds(status, context.now_seconds)
    after = _with_cost(rescale, status, context.now_seconds) if watched else rescale
    return status.model_copy(update={"rescale": after.model_copy(update={"trained": True})})


def _restarts_from(rescale: RescaleStatus, status: TrainingJobStatus) -> bool:
    """Whether the current attempt is the first one after a rescale."""
    return rescale.to_workers > 0 and status.attempt == rescale.attempt + 1


def _with_cost(rescale: RescaleStatus, status: TrainingJobStatus, until_seconds: float) -> RescaleStatus:
    waited_milliseconds = status.waited_milliseconds - rescale.waited_milliseconds
    cost = round(1000 * (until_seconds - parse_time(rescale.since))) - waited_milliseconds
    return rescale.model_copy(update={"cost_milliseconds": max(0, cost)})


def _running_since_seconds(status: TrainingJobStatus, default: float) -> float:
    running = next((each for each in status.conditions if each.type == ConditionType.RUNNING), None)
    return default if running is None else parse_time(running.last_transition_time)
