"""Jobs between two attempts: their remaining pods are deleted, then they wait for the scheduler or for something else.

A worker's pod has the same name in every attempt, so the next attempt cannot begin before the last pod is gone. A pod on a node
that does not answer would stay forever, so it is force-deleted after ``lostNodeRemovalSeconds``, without waiting for the
kubelet. What may then run twice, and for how long, is in docs/jobs.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import AvoidedNodeStatus, TrainingJobStatus
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.admission import is_admitted
from laneway.operator.lifecycle.deadline import past_deadline
from laneway.operator.lifecycle.gang import DISRUPTION_REASONS
from laneway.operator.lifecycle.reconciled_job import JobEvent, ReconcileContext, ReconciledJob
from laneway.operator.lifecycle.refusals import UNBLOCK, RefusalReason
from laneway.operator.lifecycle.scheduler_refusal import reviewed
from laneway.operator.pacing import ENDED_HOLD_SECONDS, LATE_SECONDS, NAME_TAKEN_SECONDS
from laneway.operator.state.eligibility import set_aside
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import actual_gpus
from laneway.scheduling import JobState, WorkerPlacement
from laneway.scheduling.config.operator_config import TimeoutsConfig
from laneway.scheduling.model.retries import FAILURES_IN_A_ROW_SECONDS, backoff_seconds


def leaving(
    reconciled: ReconciledJob, pods: tuple[WorkerPod, ...], context: ReconcileContext
) -> ReconciledJob:
    """The job is not to have workers: those that are alive have to go, and hold their GPUs until they have ended."""
    alive = [pod for pod in pods if not pod.ended]
    # The pods of a finished job stay for their logs; those of one that is to start again are in its way.
    pods_to_delete = tuple(pod for pod in (alive if reconciled.job.finished else pods) if not pod.deleting)
    holding: dict[int, WorkerPlacement] = {}
    ended = _holds_on(reconciled.job, pods, context.now_seconds)
    for pod in (*alive, *(pod for pod, _ in ended)):
        gpus = actual_gpus(pod, context.state.sessions)
        if gpus and pod.share_percent and pod.rank not in holding:
            holding[pod.rank] = WorkerPlacement(pod.rank, pod.node, gpus, pod.share_percent)
    holds = tuple(holding[rank] for rank in sorted(holding))
    changes_seconds = [until for _, until in ended] + [late_seconds(pod) for pod in alive]
    pods_to_force_delete, due_seconds = _pods_to_force_delete(pods, context)
    return replace(
        reconciled,
        state=JobState.TERMINATING if holds and reconciled.job.desired is not None else None,
        holds=holds,
        pods_to_delete=pods_to_delete,
        pods_to_force_delete=pods_to_force_delete,
        due_seconds=min(
            due_seconds,
            reconciled.due_seconds,
            *(seconds for seconds in changes_seconds if seconds > context.now_seconds),
        ),
    )


def late_seconds(pod: WorkerPod) -> float:
    """Return from when on a worker that has not ended counts as late; infinite: it was not told to end.

    It is late from the beginning where its grace period is long, and later where nothing ends it, such as a hung driver.
    """
    if pod.grace_seconds > LATE_SECONDS:
        return -math.inf
    return math.inf if pod.gone_by_seconds is None else pod.gone_by_seconds + LATE_SECONDS


def _holds_on(
    job: JobRecord, pods: tuple[WorkerPod, ...], now_seconds: float
) -> Sequence[tuple[WorkerPod, float]]:
    """Return the ended pods that still hold their GPUs, and until when: those of an elastic job that starts again.

    An elastic policy would give the GPUs of a job that it does not see to others, and stop these, just before the job starts again. Its pods
    are gone a moment after their containers. Those that somebody keeps, such as by a finalizer, hold nothing for longer, though their node's
    clock be fast.
    """
    spec = None if job.desired is None else job.desired.spec
    if spec is None or not spec.elastic or spec.suspend or job.finished or job.deleting:
        return ()
    ends = [(pod, pod.finished_seconds or 0.0) for pod in pods if pod.ended]
    return [
        (pod, end + ENDED_HOLD_SECONDS) for pod, end in ends if abs(now_seconds - end) < ENDED_HOLD_SECONDS
    ]


def _pods_to_force_delete(
    pods: tuple[WorkerPod, ...], context: ReconcileContext
) -> tuple[tuple[WorkerPod, ...], float]:
    """Return the pods that are to be removed without their node, and when the next one is due."""
    removal_seconds = context.timeouts.lost_node_removal_seconds
    if not removal_seconds:
        return (), math.inf
    found, due_seconds = [], []
    for pod in pods:
        node = context.state.nodes.get(pod.node)
        since = None if node is None else node.not_ready_since_seconds
        if not pod.deleting or not pod.bound or since is None:
            continue
        if context.now_seconds >= since + removal_seconds:
            found.append(pod)
        else:
            due_seconds.append(since + removal_seconds)
    return tuple(found), min(due_seconds, default=math.inf)


def had_succeeded(
    reconciled: ReconciledJob, pods: tuple[WorkerPod, ...], context: ReconcileContext
) -> ReconciledJob | None:
    """Return the job as succeeded if all of its workers had succeeded, unnoticed, before it was preempted or rescaled; None if not.

    A worker that is told to end may well end with exit code 0: only one that had ended before counts. Containers' times have
    whole seconds, so one that ended in the very second does not.
    """
    job, stopped_seconds = reconciled.job, _stopped_seconds(reconciled.job.status)
    mine = [pod for pod in pods if pod.attempt == job.status.attempt]
    if stopped_seconds is None or job.desired is None or len(mine) != job.attempt_workers:
        return None
    ends = [pod.finished_seconds for pod in mine if pod.phase == "Succeeded"]
    if len(ends) < len(mine) or any(end is None or end + 1.0 > stopped_seconds for end in ends):
        return None
    end_seconds = max(end for end in ends if end is not None)
    message = "All workers had exited with code 0 before the job was stopped."
    status = transitions.succeeded(job.status, message, end_seconds, context.now_seconds)
    return reconciled.becomes(status, JobEvent("Completed", message))


def _stopped_seconds(status: TrainingJobStatus) -> float | None:
    """Return when the last attempt was told to stop, for another job or to be rescaled; None: it was not."""
    if status.preemption is not None:
        return parse_time(status.preemption.since)
    rescale = status.rescale
    return parse_time(rescale.since) if rescale is not None and rescale.attempt == status.attempt else None


def wait(reconciled: ReconciledJob, pods: tuple[WorkerPod, ...], context: ReconcileContext) -> ReconciledJob:
    """Say whether a job without GPUs is up for the plan; if not, its status says why."""
    job, now_seconds = reconciled.job, context.now_seconds
    if job.finished or job.desired is None or not is_admitted(job):
        return reconciled
    if (over := past_deadline(reconciled, job.desired.spec.active_deadline_seconds, now_seconds)) is not None:
        return over
    refusal, review_seconds = reviewed(job, context)
    status = transitions.changed(
        job.status,
        avoid=avoided(job, context),
        failures=transitions.lately_failed(job.status, now_seconds),
        scheduler_refusal=refusal,
    )
    due_seconds = min(reconciled.due_seconds, review_seconds, _forgets_seconds(status))
    reconciled = replace(reconciled.becomes(status), due_seconds=due_seconds)
    if pods:
        return reconciled.becomes(_until_gone(status, pods, context))
    again_seconds = _backoff_until(status, context)
    if again_seconds is not None and again_seconds > now_seconds and not job.desired.spec.suspend:
        due_seconds = min(again_seconds, due_seconds)
        return replace(reconciled.becomes(_backing_off(status, again_seconds)), due_seconds=due_seconds)
    return replace(reconciled, state=JobState.WAITING)


def _forgets_seconds(status: TrainingJobStatus) -> float:
    """Return when the first avoided node or failure is dropped from the status."""
    avoided_until = (parse_time(each.until) for each in status.avoid)
    failures_until = (
        math.nextafter(parse_time(each.last) + FAILURES_IN_A_ROW_SECONDS, math.inf)
        for each in status.failures
    )
    return min((*avoided_until, *failures_until), default=math.inf)


def avoided(job: JobRecord, context: ReconcileContext) -> tuple[AvoidedNodeStatus, ...]:
    """Return the nodes that the job still avoids. A node that people keep the job off, by a cordon or a taint, is dropped from
    the list: once they remove the cordon or taint, the job may use the node again."""
    unexpired = transitions.unexpired(job.status.avoid, context.now_seconds)
    if job.desired is None:
        return unexpired
    pod_spec, nodes = job.desired.spec.template["spec"], context.state.nodes
    return tuple(
        each for each in unexpired if each.node not in nodes or not set_aside(pod_spec, nodes[each.node])
    )


def after_the_end(reconciled: ReconciledJob, context: ReconcileContext) -> ReconciledJob:
    """See to it that an ended job is deleted in time."""
    due_seconds = expires_seconds(reconciled.job, context.timeouts)
    return replace(reconciled, due_seconds=due_seconds, expired=due_seconds <= context.now_seconds)


def expires_seconds(job: JobRecord, timeouts: TimeoutsConfig) -> float:
    """Return when an ended job is to be deleted; infinite: never, or it is being deleted."""
    ttl_seconds, completed = job.ttl_seconds_after_finished, job.status.completion_time
    if ttl_seconds is None:
        ttl_seconds = timeouts.ended_job_seconds or None
    if ttl_seconds is None or completed is None or job.deleting:
        return math.inf
    # The time counts from when the operator saw the end: it may have been away, and a node's clock may be slow.
    return max(parse_time(completed), job.ended_seconds or 0.0) + ttl_seconds


def _until_gone(
    status: TrainingJobStatus, pods: tuple[WorkerPod, ...], context: ReconcileContext
) -> TrainingJobStatus:
    names = ", ".join(f"{pod.name} on {pod.node or 'no node'}" for pod in pods[:3])
    more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
    removal_seconds = context.timeouts.lost_node_removal_seconds
    goes = "when the node is back, deleted, or tainted out-of-service"
    if removal_seconds:
        goes = f"{goes}, or has not been ready for {removal_seconds} s"
    unblock = f"their end; a pod on a node that does not answer goes {goes}"
    message = f"its last workers are ending: {names}{more}"
    return transitions.waits(status, transitions.ENDING, message, None, unblock)


def _backoff_until(status: TrainingJobStatus, context: ReconcileContext) -> float | None:
    """Return when a job that failed, was refused or did not start may be tried again; the Placed condition remembers what happened."""
    placed = transitions.condition(status, ConditionType.PLACED)
    if placed is None or placed.status != "False":
        return None
    since_seconds, timeouts = parse_time(placed.last_transition_time), context.timeouts
    if placed.reason == "WorkerFailed":
        in_a_row = sum(each.count for each in transitions.lately_failed(status, since_seconds))
        return since_seconds + backoff_seconds(timeouts.restart_backoff_seconds, in_a_row)
    if placed.reason in DISRUPTION_REASONS and (unstarted := status.unstarted_attempts or 0) > 1:
        return since_seconds + backoff_seconds(timeouts.restart_backoff_seconds, unstarted - 1)
    if placed.reason == RefusalReason.NAME_TAKEN:
        return since_seconds + min(NAME_TAKEN_SECONDS, timeouts.refusal_backoff_seconds)
    if placed.reason in UNBLOCK:
        return since_seconds + timeouts.refusal_backoff_seconds
    return None


def pods_refused_seconds(job: JobRecord) -> float | None:
    """Return when the API server refused the pods of the attempt after which a job backs off; None of every other job."""
    placed, waiting = transitions.condition(job.status, ConditionType.PLACED), job.status.waiting
    if job.desired is None or waiting is None or placed is None or placed.status != "False":
        return None
    backs_off = waiting.reason in (RefusalReason.POD_REFUSED, transitions.BACKING_OFF)
    refused = backs_off and placed.reason == RefusalReason.POD_REFUSED
    return parse_time(placed.last_transition_time) if refused else None


def _backing_off(status: TrainingJobStatus, again_seconds: float) -> TrainingJobStatus:
    placed = transitions.condition(status, ConditionType.PLACED)
    assert placed is not None, "who backs off does so for what this condition says"
    said = [placed.message]
    if placed.reason in DISRUPTION_REASONS:
        said.append(f"{status.unstarted_attempts} attempts in a row ended before all workers ran")
    said.append(f"starts again not before {format_time(again_seconds)}")
    unblock = UNBLOCK.get(placed.reason, "time")
    return transitions.waits(status, transitions.BACKING_OFF, "; ".join(said), None, unblock)
