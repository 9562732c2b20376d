"""The steps in the life of a job, each a function from one status to the next.

Nothing here looks at the cluster: who calls decides that a step is due. Every step leaves all six conditions set, with a
reason for programs and a sentence for people, and service counted up to the moment at which the job stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from laneway.api import quantity
from laneway.api.clock_text import to_seconds, to_text
from laneway.api.conditions import Condition, ConditionStatus, with_condition
from laneway.api.job_standing import AvoidedNodeStatus, NodeFailuresStatus, PreemptionStatus, WaitingStatus
from laneway.api.training_job import ConditionType, TrainingJobStatus, WorkerPlacementStatus
from laneway.operator import accounting
from laneway.scheduling import Depth, WorkerPlacement

Status = TrainingJobStatus

_FIRST_VISIT: tuple[tuple[ConditionType, ConditionStatus, str, str], ...] = (
    (ConditionType.ADMITTED, "Unknown", "NotChecked", "the job has not been looked at"),
    (ConditionType.PLACED, "False", "NotPlaced", "the job has no GPUs yet"),
    (ConditionType.RUNNING, "False", "NotStarted", "the job has not run yet"),
    (ConditionType.PREEMPTED, "False", "NeverPreempted", "the job never made way for another"),
    (ConditionType.SUCCEEDED, "False", "NotFinished", "the job has not ended"),
    (ConditionType.FAILED, "False", "NotFinished", "the job has not ended"),
)

_LONGEST_MESSAGE = 32_000
"""Somewhat below the limit of ``metav1.Condition``."""

STARTING = "Starting"
BACKING_OFF = "BackingOff"
ENDING = "WorkersEnding"
PREEMPTED = "Preempted"
PARKED = {Depth.PAUSE: "Paused", Depth.OFFLOAD: "Offloaded"}
"""Reason of Running=False, and of waiting, for a job that made way without ending."""

FAILURES_IN_A_ROW_SECONDS = 3600.0
"""Two failures on a node with more than this between them have nothing to do with one another."""


def with_conditions(status: Status, now_seconds: float, *changes: tuple[str, bool, str, str]) -> Status:
    """Return the status with conditions of these (type, holds, reason, message); the same object where they are there."""
    conditions = status.conditions
    for kind, holds, reason, text in changes:
        message, stated = text[:_LONGEST_MESSAGE], "True" if holds else "False"
        if any(
            (each.type, each.status, each.reason, each.message) == (kind, stated, reason, message)
            for each in conditions
        ):
            continue
        condition = Condition(
            type=kind,
            status="True" if holds else "False",
            reason=reason,
            message=message,
            last_transition_time=to_text(now_seconds),
        )
        conditions = with_condition(conditions, condition)
    return status if conditions is status.conditions else changed(status, conditions=conditions)


def first_visited(status: Status, created_seconds: float, now_seconds: float) -> Status:
    """Return the status with every condition set, waiting since the job was created; what is there stays."""
    if not status.conditions:
        waiting = WaitingStatus(
            reason="NotConsidered", message="no plan was made yet", since=to_text(created_seconds)
        )
        status = changed(status, waiting=waiting)
    there = {condition.type for condition in status.conditions}
    missing = tuple(
        Condition(
            type=kind, status=holds, reason=reason, message=message, last_transition_time=to_text(now_seconds)
        )
        for kind, holds, reason, message in _FIRST_VISIT
        if kind not in there
    )
    return changed(status, conditions=(*status.conditions, *missing)) if missing else status


def admitted(status: Status, now_seconds: float) -> Status:
    """The spec is understood."""
    return with_conditions(
        status, now_seconds, (ConditionType.ADMITTED, True, "Accepted", "the job may be scheduled")
    )


def refused(status: Status, reason: str, message: str, now_seconds: float) -> Status:
    """The spec cannot be acted upon."""
    return with_conditions(status, now_seconds, (ConditionType.ADMITTED, False, reason, message))


def placed(status: Status, placement: Sequence[WorkerPlacement], now_seconds: float) -> Status:
    """An attempt begins: the GPUs are chosen, the pods are to be made."""
    nodes = ", ".join(sorted({worker.node for worker in placement}))
    workers = "one worker" if len(placement) == 1 else f"{len(placement)} workers"
    changes = [(ConditionType.PLACED, True, "GPUsChosen", f"{workers} on {nodes}")]
    if _is_true(status, ConditionType.PREEMPTED):
        changes.append((ConditionType.PREEMPTED, False, "PlacedAgain", f"placed again on {nodes}"))
    status = with_conditions(status, now_seconds, *changes)
    return changed(
        _gone_on(status),
        attempt=status.attempt + 1,
        placement=placement_status(placement),
        turns_before_attempt=status.turns,
        waiting=WaitingStatus(
            reason=STARTING,
            message=f"0 of {len(placement)} workers run",
            since=_waits_since(status, now_seconds),
        ),
        avoid=unexpired(status.avoid, now_seconds),
    )


def started(status: Status, reason: str, message: str, start_seconds: float) -> Status:
    """All workers run, since ``start_seconds``."""
    status = with_conditions(status, start_seconds, (ConditionType.RUNNING, True, reason, message))
    status = accounting.started(status, start_seconds)
    start_time = status.start_time or to_text(start_seconds)
    return changed(status, waiting=None, start_time=start_time, unstarted_attempts=None)


def unplaced(status: Status, reason: str, message: str, end_seconds: float, now_seconds: float) -> Status:
    """The attempt is over and the job waits again; its pods are to be deleted."""
    ran = status.service_counted_at is not None
    since = to_text(now_seconds) if ran else _waits_since(status, now_seconds)
    changes = [(kind, False, reason, message) for kind in (ConditionType.PLACED, ConditionType.RUNNING)]
    if reason != PREEMPTED and _is_true(status, ConditionType.PREEMPTED):
        changes.append(
            (ConditionType.PREEMPTED, False, reason, message)
        )  # it was parked: nobody needs it to be any more
    status = with_conditions(accounting.stopped(status, end_seconds), now_seconds, *changes)
    waiting = WaitingStatus(reason=reason, message=message, since=since)
    return changed(_gone_on(status), placement=(), waiting=waiting)


def preempted(
    status: Status,
    reason: str,
    message: str,
    now_seconds: float,
    beneficiary: str | None = None,
    cost_seconds: float = 0.0,
) -> Status:
    """The job makes way for another by ending. One that was told to stay, and is now told to end, makes way only once."""
    again, before = status.preemption is not None, status.last_preemption
    status = unplaced(status, PREEMPTED, message, now_seconds, now_seconds)
    status = with_conditions(status, now_seconds, (ConditionType.PREEMPTED, True, reason, message))
    making_way = PreemptionStatus(
        depth=Depth.EVICT.value,
        beneficiary=beneficiary or "",
        reason=reason,
        message=message,
        cost=_cost(cost_seconds),
        since=to_text(now_seconds),
    )
    # One that stood aside and ends now still makes way: the last time that is over is the one before.
    return changed(
        status,
        preemptions=status.preemptions + (not again),
        preemption=making_way,
        last_preemption=before,
    )


def told_to_park(
    status: Status,
    depth: Depth,
    reason: str,
    message: str,
    now_seconds: float,
    beneficiary: str | None,
    cost_seconds: float = 0.0,
) -> Status:
    """The job is to make way without ending; it runs until its nodes say that it has. One that is paused already, and is now to move its
    memory to the host, makes way only once."""
    again = status.preemption is not None
    status = with_conditions(status, now_seconds, (ConditionType.PREEMPTED, True, reason, message))
    making_way = PreemptionStatus(
        depth="Pause" if depth is Depth.PAUSE else "Offload",
        beneficiary=beneficiary or "",
        reason=reason,
        message=message,
        cost=_cost(cost_seconds),
        since=to_text(now_seconds),
    )
    return changed(status, preemptions=status.preemptions + (not again), preemption=making_way)


def parked(status: Status, now_seconds: float) -> Status:
    """The job has made way without ending: it keeps its workers, and takes no turns."""
    making_way = status.preemption
    assert making_way is not None
    reason = PARKED[Depth(making_way.depth)]
    status = accounting.stopped(status, now_seconds)
    status = with_conditions(status, now_seconds, (ConditionType.RUNNING, False, reason, making_way.message))
    return changed(
        status,
        preemption=making_way.model_copy(update={"reached_at": to_text(now_seconds)}),
        waiting=WaitingStatus(
            reason=reason, message=making_way.message, since=_waits_since(status, now_seconds)
        ),
    )


def resumed(status: Status, now_seconds: float) -> Status:
    """A parked job goes on where it is."""
    message = "the job goes on where it is"
    status = with_conditions(
        status,
        now_seconds,
        (ConditionType.PREEMPTED, False, "Resumed", message),
        (ConditionType.RUNNING, True, "Resumed", message),
    )
    return changed(accounting.started(_gone_on(status), now_seconds), waiting=None)


def restarted(status: Status, reason: str, message: str, end_seconds: float, now_seconds: float) -> Status:
    """A worker failed and the gang is to start again."""
    return changed(unplaced(status, reason, message, end_seconds, now_seconds), restarts=status.restarts + 1)


def kept_away(
    status: Status, nodes: Iterable[str], message: str, until_seconds: float, now_seconds: float
) -> Status:
    """The job is not placed on these nodes for a while."""
    nodes = set(nodes)
    others = [each for each in unexpired(status.avoid, now_seconds) if each.node not in nodes]
    new = [
        AvoidedNodeStatus(node=node, until=to_text(until_seconds), message=message) for node in sorted(nodes)
    ]
    return changed(status, avoid=(*others, *new))


def failed_on(status: Status, node: str, now_seconds: float) -> Status:
    """A worker failed on a node."""
    count = 1 + next((each.count for each in lately_failed(status, now_seconds) if each.node == node), 0)
    others = [each for each in lately_failed(status, now_seconds) if each.node != node]
    last = NodeFailuresStatus(node=node, count=count, last=to_text(now_seconds))
    return changed(status, failures=(*others, last))


def lately_failed(status: Status, now_seconds: float) -> tuple[NodeFailuresStatus, ...]:
    """Return where workers of the job failed, without what is long ago."""
    return tuple(
        each for each in status.failures if now_seconds - to_seconds(each.last) <= FAILURES_IN_A_ROW_SECONDS
    )


def succeeded(status: Status, message: str, end_seconds: float, now_seconds: float) -> Status:
    """The job is done."""
    return _finished(
        status,
        end_seconds,
        now_seconds,
        (ConditionType.SUCCEEDED, True, "AllWorkersSucceeded", message),
        (ConditionType.RUNNING, False, "Succeeded", message),
    )


def failed(status: Status, reason: str, message: str, end_seconds: float, now_seconds: float) -> Status:
    """The job failed for good."""
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
    ended = [(ConditionType.PLACED, False, "Finished", "the job ended and gave its GPUs back")]
    if _is_true(status, ConditionType.PREEMPTED):
        ended.append((ConditionType.PREEMPTED, False, "Finished", "the job ended"))
    status = accounting.stopped(status, end_seconds)
    status = with_conditions(status, now_seconds, *ended, *changes)
    # The placement stays: it says where the job ran last, and where its logs are.
    completed = to_text(end_seconds)
    return changed(
        _gone_on(status),
        waiting=None,
        avoid=(),
        failures=(),
        unstarted_attempts=None,
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
    return tuple(each for each in avoid if to_seconds(each.until) > now_seconds)


def condition(status: Status, kind: ConditionType) -> Condition | None:
    """Return a condition, or None where it is not set."""
    return next((each for each in status.conditions if each.type == kind), None)


def since_seconds(status: Status, kind: ConditionType, default: float) -> float:
    """Return when a condition last changed."""
    found = condition(status, kind)
    return default if found is None else to_seconds(found.last_transition_time)


def _gone_on(status: Status) -> Status:
    """The job makes way no more; for whom it did, how far and why is kept."""
    if status.preemption is None:
        return status
    return changed(status, preemption=None, last_preemption=status.preemption)


def _cost(cost_seconds: float) -> str:
    return quantity.format_seconds(cost_seconds) if cost_seconds > 0 else ""


def _waits_since(status: Status, now_seconds: float) -> str:
    waiting = status.waiting
    return waiting.since if waiting is not None and waiting.since else to_text(now_seconds)


def _is_true(status: Status, kind: ConditionType) -> bool:
    found = condition(status, kind)
    return found is not None and found.status == "True"


def changed(status: Status, **changes: Any) -> Status:
    """Return the status with other values in some fields; the same object where it has them already."""
    if all(getattr(status, name) == value for name, value in changes.items()):
        return status
    return status.model_copy(update=changes)
