"""The condition RescalePending of an elastic job: why it does not have the workers that ``spec.workers`` asks for.

Jobs whose number of workers cannot change do not have the condition.
"""

from __future__ import annotations

from laneway.api.job_conditions import ELASTIC_POLICY_DECIDES, ConditionType
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconciled_job import JobEvent
from laneway.scheduling.model.held_rescale import HeldRescale


def left_to_policy(
    status: TrainingJobStatus, policy: str, now_seconds: float
) -> tuple[TrainingJobStatus, tuple[JobEvent, ...]]:
    """Return the status of an elastic job with who chooses its workers, and the event that tells it once.

    Args:
        status: of a job with workers.
        policy: name of the elastic policy; empty where ``spec.workers`` counts.
        now_seconds: Unix time.
    """
    known = transitions.condition(status, ConditionType.RESCALE_PENDING)
    decided = known is not None and known.reason == ELASTIC_POLICY_DECIDES
    if not policy:
        change = transitions.NO_RESCALE_PENDING
        return (transitions.with_conditions(status, now_seconds, change) if decided else status), ()
    message = f"The elastic policy {policy} chooses the number of workers; spec.workers is not used."
    change = (ConditionType.RESCALE_PENDING, False, ELASTIC_POLICY_DECIDES, message)
    status = transitions.with_conditions(status, now_seconds, change)
    return status, () if decided else (JobEvent(ELASTIC_POLICY_DECIDES, message),)


def held(
    status: TrainingJobStatus, why: HeldRescale | None, now_seconds: float
) -> tuple[TrainingJobStatus, tuple[JobEvent, ...]]:
    """Return the status with why the job runs on with the workers that it has, and an event where that is a new reason.

    Args:
        status: of a job that is neither started nor stopped now.
        why: None: no rescale waits.
        now_seconds: Unix time.
    """
    if why is None:
        return transitions.rescale_not_pending(status, now_seconds), ()
    known = transitions.condition(status, ConditionType.RESCALE_PENDING)
    change = (ConditionType.RESCALE_PENDING, True, str(why.reason), why.message)
    status = transitions.with_conditions(status, now_seconds, change)
    if known is not None and (known.status, known.reason) == ("True", str(why.reason)):
        return status, ()
    return status, (JobEvent(str(ConditionType.RESCALE_PENDING), why.message),)
