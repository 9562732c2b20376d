"""The steps in the life of a job, each a function from one status to the next.

Nothing here looks at the cluster: the caller decides that a step is due. Every step keeps the seven conditions of a first visit set, with a
reason for programs and a sentence for people. A step that stops the job counts its service up to the stop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from laneway.api.attempt_status import AttemptOutcome
from laneway.api.conditions import Condition, ConditionStatus, is_true, with_condition
from laneway.api.job_conditions import (
    ALL_WORKERS_RUN,
    OFFLOADED,
    PAUSED,
    PAUSED_BY_ORDER,
    WAITING_FOR_LANE,
    ConditionType,
)
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import (
    AvoidedNodeStatus,
    NodeFailuresStatus,
    PreemptionStatus,
    RescaleStatus,
    TrainingJobStatus,
    WaitingStatus,
    WorkerPlacementStatus,
)
from laneway.operator.lifecycle import accounting, ended_attempts, failed_workers, rescaling
from laneway.scheduling import PreemptionAction, WorkerPlacement
from laneway.scheduling.model.retries import FAILURES_IN_A_ROW_SECONDS

Status = TrainingJobStatus

_FIRST_VISIT: tuple[tuple[ConditionType, ConditionStatus, str, str], ...] = (
    (ConditionType.ACCEPTED, "Unknown", "NotChecked", "The operator has not checked the job yet."),
    (ConditionType.PLACED, "False", "NotPlaced", "The job has no GPUs yet."),
    (ConditionType.RUNNING, "False", "NotStarted", "The job has not run yet."),
    (ConditionType.PREEMPTED, "False", "NeverPreempted", "The job was never preempted."),
    (ConditionType.SUSPENDED, "False", "NotSuspended", "The job is not suspended."),
    (ConditionType.COMPLETE, "False", "NotFinished", "The job has not finished."),
    (ConditionType.FAILED, "False", "NotFinished", "The job has not finished."),
)

_STATED: dict[bool, ConditionStatus] = {True: "True", False: "False"}
_LONGEST_MESSAGE = 32_000
"""Somewhat below the limit of ``metav1.Condition``."""

STARTING = "Starting"
BACKING_OFF = "BackingOff"
ENDING = "WorkersEnding"
PREEMPTED = "Preempted"
RESUMED = "Resumed"
RESCALING = "Rescaling"
RESCALE_FAILED = "RescaleFailed"
NO_RESCALE_PENDING = (ConditionType.RESCALE_PENDING, False, "NotPending", "No rescale is pending.")
PAUSED_REASONS = {PreemptionAction.PAUSE: PAUSED, PreemptionAction.OFFLOAD: OFFLOADED}
"""Reason of Running=False, and of waiting, for a job that was preempted without being evicted."""
LANE_GRANTED = "LaneGranted"
UNPAUSED = "Unpaused"
_KEPT = {
    WAITING_FOR_LANE: "Memory for a lane on that GPU: another job on it finishes, is preempted or needs less memory.",
    PAUSED_BY_ORDER: "The one who gave the order takes it back: kubectl laneway unpause NAME, or restore where it was offloaded.",
}
"""What would let a job go on that is kept from its GPUs, by the reason of Running=False."""
FREED = {
    WAITING_FOR_LANE: (LANE_GRANTED, "All workers run, and each has a lane on its GPU."),
    PAUSED_BY_ORDER: (UNPAUSED, "All workers run, and no order pauses one any more."),
}
"""The reason of Running=True, and its message, once it is not kept from them any more."""


def with_conditions(status: Status, now_seconds: float, *changes: tuple[str, bool, str, str]) -> Status:
    """Return the status with conditions of these (type, holds, reason, message); the same object where they are there."""
    conditions = status.conditions
    for kind, holds, reason, text in changes:
        message, stated = text[:_LONGEST_MESSAGE], _STATED[holds]
        if any(
            (each.type, each.status, each.reason, each.message) == (kind, stated, reason, message)
            for each in conditions
        ):
            continue
        conditions = with_condition(conditions, _condition(kind, stated, reason, message, now_seconds))
    return changed(status, conditions=conditions)


def first_visited(status: Status, created_seconds: float, now_seconds: float) -> Status:
    """Return the status with every condition set, waiting since the job was created; what is there stays."""
    if not status.conditions:
        waiting = WaitingStatus(
            reason="NotConsidered",
            message="The scheduler has not considered the job yet.",
            since=format_time(created_seconds),
        )
        status = changed(status, waiting=waiting)
    there = {condition.type for condition in status.conditions}
    missing = tuple(
        _condition(kind, stated, reason, message, now_seconds)
        for kind, stated, reason, message in _FIRST_VISIT
        if kind not in there
    )
    return changed(status, conditions=(*status.conditions, *missing))


def _condition(
    kind: str, stated: ConditionStatus, reason: str, message: str, now_seconds: float
) -> Condition:
    since = format_time(now_seconds)
    return Condition(type=kind, status=stated, reason=reason, message=message, last_transition_time=since)


def admitted(status: Status, now_seconds: float) -> Status:
    """The spec is understood."""
    return with_conditions(
        status,
        now_seconds,
        (ConditionType.ACCEPTED, True, "Valid", "The spec is valid; the job may be scheduled."),
    )


def refused(status: Status, reason: str, message: str, now_seconds: float) -> Status:
    """The spec cannot be acted upon."""
    return with_conditions(status, now_seconds, (ConditionType.ACCEPTED, False, reason, message))


def placed(
    status: Status, placement: Sequence[WorkerPlacement], now_seconds: float, batch: int = 0
) -> Status:
    """An attempt begins: the GPUs and the batch are chosen, the pods are to be made."""
    nodes = ", ".join(sorted({worker.node for worker in placement}))
    workers = "one worker" if len(placement) == 1 else f"{len(placement)} workers"
    changes = [(ConditionType.PLACED, True, "GPUsChosen", f"Placed {workers} on {nodes}.")]
    if is_true(status.conditions, ConditionType.PREEMPTED):
        changes.append((ConditionType.PREEMPTED, False, "PlacedAgain", f"Placed again on {nodes}."))
    status = rescale_not_pending(with_conditions(status, now_seconds, *changes), now_seconds)
    status = waits(status, STARTING, f"0 of {len(placement)} workers run.", now_seconds)
    workers_before = status.attempt_workers or len(placement)
    return changed(
        _gone_on(status),
        attempt=status.attempt + 1,
        attempt_workers=len(placement),
        attempt_batch=batch,
        placement=placement_status(placement),
        # With another number of workers, each may hold another part of the batch.
        profile=status.profile if workers_before == len(placement) else None,
        turns_before_attempt=status.turns,
        executed_before_attempt_milliseconds=status.executed_milliseconds,
        avoid=unexpired(status.avoid, now_seconds),
    )


def rescale_not_pending(status: Status, now_seconds: float) -> Status:
    """A job has the number of workers that it is to have, or gets it when it starts."""
    if not is_true(status.conditions, ConditionType.RESCALE_PENDING):
        return status
    return with_conditions(status, now_seconds, NO_RESCALE_PENDING)


def started(status: Status, reason: str, message: str, start_seconds: float) -> Status:
    """All workers run, since ``start_seconds``."""
    status = with_conditions(status, start_seconds, (ConditionType.RUNNING, True, reason, message))
    status = rescaling.counted(accounting.started(status, start_seconds), start_seconds)
    status = rescaling.completed(status, start_seconds)
    start_time = status.start_time or format_time(start_seconds)
    return changed(
        status, waiting=None, start_time=start_time, unstarted_attempts=None, scheduler_refusal=None
    )


def unplaced(
    status: Status,
    outcome: AttemptOutcome,
    reason: str,
    message: str,
    end_seconds: float,
    now_seconds: float,
    detail: str = "",
) -> Status:
    """The attempt is over and the job waits again; its pods are to be deleted. The history of attempts has ``detail`` as the reason, if given."""
    if status.service_counted_at is not None:  # it ran: another wait begins
        status = changed(status, waiting=None)
    changes = [(kind, False, reason, message) for kind in (ConditionType.PLACED, ConditionType.RUNNING)]
    if reason != PREEMPTED and is_true(status.conditions, ConditionType.PREEMPTED):
        changes.append(
            (ConditionType.PREEMPTED, False, reason, message)
        )  # it was paused, and need not be any more
    ended = failed_workers.with_working(accounting.stopped(status, end_seconds))
    ended = ended_attempts.with_ended(ended, outcome, detail or reason, message, end_seconds)
    status = with_conditions(ended, now_seconds, *changes)
    status = rescale_not_pending(status, now_seconds)
    progress = status.progress
    if progress is not None:
        progress = progress.model_copy(update={"unsaved_since": None})
    return changed(
        _gone_on(waits(status, reason, message, now_seconds)),
        placement=(),
        progress=progress,
    )


def suspended(status: Status, message: str, now_seconds: float) -> Status:
    """The user suspended the job: its attempt is over."""
    ended = unplaced(status, AttemptOutcome.SUSPENDED, "Suspended", message, now_seconds, now_seconds)
    return with_suspension(ended, now_seconds, suspended=True)


def preempted(
    status: Status,
    reason: str,
    message: str,
    now_seconds: float,
    preemptor: str | None = None,
    cost_seconds: float = 0.0,
) -> Status:
    """The job is evicted for another one. If it was told to pause before, both count as one preemption."""
    ended = unplaced(
        status, AttemptOutcome.PREEMPTED, PREEMPTED, message, now_seconds, now_seconds, detail=reason
    )
    # The condition and the preemption are written as for a job that is asked to pause.
    evict = PreemptionAction.EVICT
    evicted = asked_to_pause(ended, evict, reason, message, now_seconds, preemptor, cost_seconds)
    if status.preemption is None:
        return evicted
    # A paused job that is evicted is still in the same preemption: the last completed one is the one before.
    return changed(evicted, preemptions=status.preemptions, last_preemption=status.last_preemption)


def rescaled(status: Status, workers: int, message: str, now_seconds: float) -> Status:
    """The attempt is over, because the job is to have another number of workers. That is neither a failure nor a preemption."""
    rescale = RescaleStatus(
        from_workers=len(status.placement),
        to_workers=workers,
        message=message,
        attempt=status.attempt,
        since=format_time(now_seconds),
        waited_milliseconds=status.waited_milliseconds,
    )
    ended = unplaced(status, AttemptOutcome.RESCALED, RESCALING, message, now_seconds, now_seconds)
    return changed(ended, rescales=status.rescales + 1, rescale=rescale)


def rescaled_back(status: Status, message: str, end_seconds: float, now_seconds: float) -> Status:
    """The attempt has failed because of its number of workers: the job is to start again with the number that has worked. The failures of that
    number count as restarts no longer."""
    failed = failed_workers.given_up(status)
    restarts = 0 if failed is None else failed.failures - 1
    ended = unplaced(status, AttemptOutcome.FAILED, RESCALE_FAILED, message, end_seconds, now_seconds)
    return changed(ended, restarts=max(0, status.restarts - restarts))


def asked_to_pause(
    status: Status,
    action: PreemptionAction,
    reason: str,
    message: str,
    now_seconds: float,
    preemptor: str | None,
    cost_seconds: float = 0.0,
) -> Status:
    """The job is to pause or offload; it runs until its nodes report that it has. If it is paused already and is now to
    offload, both count as one preemption."""
    again = status.preemption is not None
    status = with_conditions(status, now_seconds, (ConditionType.PREEMPTED, True, reason, message))
    preemption = PreemptionStatus(
        action=action.value,
        preemptor=preemptor or "",
        reason=reason,
        message=message,
        cost_milliseconds=_cost(cost_seconds),
        since=format_time(now_seconds),
    )
    return changed(status, preemptions=status.preemptions + (not again), preemption=preemption)


def paused(status: Status, now_seconds: float) -> Status:
    """The job has paused or offloaded: it keeps its workers, and takes no turns."""
    preemption = status.preemption
    assert preemption is not None
    reason = PAUSED_REASONS[PreemptionAction(preemption.action)]
    status = accounting.stopped(status, now_seconds)
    status = with_conditions(status, now_seconds, (ConditionType.RUNNING, False, reason, preemption.message))
    status = waits(status, reason, preemption.message, now_seconds)
    return changed(status, preemption=preemption.model_copy(update={"reached_at": format_time(now_seconds)}))


def resumed(status: Status, now_seconds: float) -> Status:
    """A paused job goes on where it is."""
    message = "Resumed in place: its GPUs are free."
    status = with_conditions(
        status,
        now_seconds,
        (ConditionType.PREEMPTED, False, RESUMED, message),
        (ConditionType.RUNNING, True, RESUMED, message),
    )
    return changed(accounting.started(_gone_on(status), now_seconds), waiting=None)


def kept_from_gpus(status: Status, reason: str, message: str, now_seconds: float) -> Status:
    """A worker has no lane on its GPU, or somebody paused it: the job keeps its workers, cannot use its GPUs, and is charged no service."""
    status = accounting.stopped(status, now_seconds) if status.service_counted_at else status
    status = with_conditions(status, now_seconds, (ConditionType.RUNNING, False, reason, message))
    return waits(status, reason, message, now_seconds, _KEPT[reason])


def freed(status: Status, now_seconds: float) -> Status:
    """No worker of a job that was kept from its GPUs is any more: the job runs."""
    reason, message = FREED[kept_reason(status)]
    change = (ConditionType.RUNNING, True, reason, message)
    return changed(
        accounting.started(with_conditions(status, now_seconds, change), now_seconds), waiting=None
    )


def counts_since_start(status: Status) -> bool:
    """Return whether no service has been counted since the attempt's workers began to run: nobody may have seen it yet."""
    running, counted_seconds = condition(status, ConditionType.RUNNING), accounting.counted_at_seconds(status)
    if running is None or counted_seconds is None or running.reason != ALL_WORKERS_RUN:
        return False
    return counted_seconds < parse_time(running.last_transition_time) + 1.0


def kept_reason(status: Status) -> str:
    """Return why the job is kept from its GPUs although its workers run, as the reason of Running=False; empty where it is not."""
    running = condition(status, ConditionType.RUNNING)
    return (
        running.reason
        if running is not None and running.status == "False" and running.reason in _KEPT
        else ""
    )


def with_suspension(status: Status, now_seconds: float, *, suspended: bool) -> Status:
    """The user suspended the job, or took that back. After a suspension, it may have any number of workers again."""
    if suspended:
        status = changed(status, failed_workers=())
        change = (
            ConditionType.SUSPENDED,
            True,
            "SuspendedByUser",
            "Suspended by spec.suspend; set it to false to go on.",
        )
    elif is_true(status.conditions, ConditionType.SUSPENDED):
        if status.waiting is not None:  # the time of the suspension is no wait
            waiting = status.waiting.model_copy(update={"since": format_time(now_seconds)})
            status = changed(status, waiting=waiting)
        change = (ConditionType.SUSPENDED, False, "ResumedByUser", "The job is not suspended any more.")
    else:
        return status
    return with_conditions(status, now_seconds, change)


def restarted(status: Status, reason: str, message: str, end_seconds: float, now_seconds: float) -> Status:
    """A worker failed, with this reason, and the gang is to start again."""
    ended = unplaced(
        status, AttemptOutcome.FAILED, "WorkerFailed", message, end_seconds, now_seconds, detail=reason
    )
    return changed(ended, restarts=status.restarts + 1)


def kept_away(
    status: Status, nodes: Iterable[str], message: str, until_seconds: float, now_seconds: float
) -> Status:
    """The job is not placed on these nodes for a while."""
    nodes = set(nodes)
    others = [each for each in unexpired(status.avoid, now_seconds) if each.node not in nodes]
    new = [
        AvoidedNodeStatus(node=node, until=format_time(until_seconds), message=message)
        for node in sorted(nodes)
    ]
    return changed(status, avoid=(*others, *new))


def failed_on(status: Status, node: str, now_seconds: float) -> Status:
    """A worker failed on a node."""
    count = 1 + next((each.count for each in lately_failed(status, now_seconds) if each.node == node), 0)
    others = [each for each in lately_failed(status, now_seconds) if each.node != node]
    last = NodeFailuresStatus(node=node, count=count, last=format_time(now_seconds))
    return changed(status, failures=(*others, last))


def lately_failed(status: Status, now_seconds: float) -> tuple[NodeFailuresStatus, ...]:
    """Return where workers of the job failed, without what is long ago."""
    return tuple(
        each for each in status.failures if now_seconds - parse_time(each.last) <= FAILURES_IN_A_ROW_SECONDS
    )


def succeeded(status: Status, message: str, end_seconds: float, now_seconds: float) -> Status:
    """The job is done."""
    reason = "AllWorkersSucceeded"
    status = accounting.stopped(status, end_seconds)
    status = ended_attempts.with_ended(status, AttemptOutcome.SUCCEEDED, reason, message, end_seconds)
    return _finished(
        status,
        end_seconds,
        now_seconds,
        (ConditionType.COMPLETE, True, reason, message),
        (ConditionType.RUNNING, False, "Complete", message),
    )


def failed(status: Status, reason: str, message: str, end_seconds: float, now_seconds: float) -> Status:
    """The job failed for good."""
    status = accounting.stopped(status, end_seconds)
    status = ended_attempts.with_ended(status, AttemptOutcome.FAILED, reason, message, end_seconds)
    return _finished(
        status,
        end_seconds,
        now_seconds,
        (ConditionType.FAILED, True, reason, message),
        (ConditionType.RUNNING, False, "Failed", message),
    )


def _finished(
    status: Status, end_seconds: float, now_seconds: float, *changes: tuple[str, bool, str, str]
) -> Status:
    ended = [(ConditionType.PLACED, False, "Finished", "The job finished and released its GPUs.")]
    if is_true(status.conditions, ConditionType.PREEMPTED):
        ended.append((ConditionType.PREEMPTED, False, "Finished", "The job finished."))
    status = rescale_not_pending(with_conditions(status, now_seconds, *ended, *changes), now_seconds)
    # The placement stays: it says where the job ran last, and where its logs are.
    completed = format_time(end_seconds)
    progress = status.progress
    if progress is not None:
        progress = progress.model_copy(update={"unsaved_since": None, "warning": ""})
    return changed(
        _gone_on(status),
        progress=progress,
        waiting=None,
        avoid=(),
        failures=(),
        unstarted_attempts=None,
        scheduler_refusal=None,
        completion_time=completed,
    )


def placement_status(placement: Iterable[WorkerPlacement]) -> tuple[WorkerPlacementStatus, ...]:
    """Return a placement as the status has it."""
    return tuple(
        WorkerPlacementStatus(
            worker=each.worker, node=each.node, gpus=each.gpus, share_percent=each.share_percent
        )
        for each in placement
    )


def unexpired(avoid: Iterable[AvoidedNodeStatus], now_seconds: float) -> tuple[AvoidedNodeStatus, ...]:
    """Return the nodes that are still to be avoided."""
    return tuple(each for each in avoid if parse_time(each.until) > now_seconds)


def condition(status: Status, kind: ConditionType) -> Condition | None:
    """Return a condition, or None where it is not set."""
    return next((each for each in status.conditions if each.type == kind), None)


def since_seconds(status: Status, kind: ConditionType, default: float) -> float:
    """Return when a condition last changed."""
    found = condition(status, kind)
    return default if found is None else parse_time(found.last_transition_time)


def _gone_on(status: Status) -> Status:
    """The preemption is over; its preemptor, action and reason are kept."""
    if status.preemption is None:
        return status
    return changed(status, preemption=None, last_preemption=status.preemption)


def _cost(cost_seconds: float) -> int | None:
    return round(cost_seconds * 1000) if cost_seconds > 0 else None


def waits(
    status: Status, reason: str, message: str, since_seconds: float | None, unblock: str = ""
) -> Status:
    """The job waits, for another reason than before where it waited already. ``since_seconds`` is when the wait began, unless
    the status says so; None: unknown."""
    since = status.waiting.since if status.waiting else None
    if since is None and since_seconds is not None:
        since = format_time(since_seconds)
    waiting = WaitingStatus(reason=reason, message=message, unblock=unblock, since=since)
    return changed(status, waiting=waiting)


def changed(status: Status, **changes: Any) -> Status:
    """Return the status with other values in some fields; the same object where it has them already."""
    if all(getattr(status, name) == value for name, value in changes.items()):
        return status
    return status.model_copy(update=changes)
