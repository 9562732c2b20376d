"""The history of a job's ended attempts: each transition that ends one adds it, in the write that says so."""

from __future__ import annotations

from laneway.api.attempt_status import (
    LONGEST_MESSAGE,
    MOST_ATTEMPTS,
    MOST_NODES,
    AttemptOutcome,
    AttemptStatus,
)
from laneway.api.conditions import is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.lifecycle import accounting
from laneway.operator.lifecycle.unsaved_work import lost_seconds


def with_ended(
    status: TrainingJobStatus, outcome: AttemptOutcome, reason: str, message: str, end_seconds: float
) -> TrainingJobStatus:
    """Return the status with its current attempt among the ended ones; unchanged if the job has none.

    Args:
        status: still placed, with the service counted up to the end.
        outcome: why the attempt ended.
        reason: the same more precisely, as one CamelCase word.
        message: the same as a sentence.
        end_seconds: when its workers ended, or were told to end.
    """
    message = message[:LONGEST_MESSAGE]
    if not is_true(status.conditions, ConditionType.PLACED):
        succeeded = outcome is AttemptOutcome.SUCCEEDED
        return _with_success(status, reason, message, end_seconds) if succeeded else status
    placed = next(each for each in status.conditions if each.type == ConditionType.PLACED)
    executed_milliseconds = status.executed_milliseconds - status.executed_before_attempt_milliseconds
    held_gpus = accounting.held_gpus(status.placement)
    ended = AttemptStatus(
        attempt=status.attempt,
        started_at=placed.last_transition_time,
        ended_at=format_time(max(end_seconds, parse_time(placed.last_transition_time))),
        workers=len(status.placement),
        nodes=tuple(sorted({worker.node for worker in status.placement})[:MOST_NODES]),
        outcome=outcome,
        reason=reason,
        message=message,
        attainedServiceGPUMilliseconds=round(executed_milliseconds * held_gpus),
        lostServiceGPUMilliseconds=_lost_gpu_milliseconds(status, outcome, held_gpus),
    )
    return status.model_copy(update={"ended_attempts": (*status.ended_attempts, ended)[-MOST_ATTEMPTS:]})


def _lost_gpu_milliseconds(
    status: TrainingJobStatus, outcome: AttemptOutcome, held_gpus: float
) -> int | None:
    seconds = 0.0 if outcome is AttemptOutcome.SUCCEEDED else lost_seconds(status)
    return None if seconds is None else round(1000 * seconds * held_gpus)


def _with_success(
    status: TrainingJobStatus, reason: str, message: str, end_seconds: float
) -> TrainingJobStatus:
    """Correct the last attempt, which was preempted or rescaled: its workers had succeeded before, and nobody had noticed."""
    success = {
        "ended_at": format_time(end_seconds),
        "outcome": AttemptOutcome.SUCCEEDED,
        "reason": reason,
        "message": message,
        "lost_service_gpu_milliseconds": 0,
    }
    last = tuple(each.model_copy(update=success) for each in status.ended_attempts[-1:])
    return status.model_copy(update={"ended_attempts": (*status.ended_attempts[:-1], *last)})
