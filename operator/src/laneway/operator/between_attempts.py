"""A job that is not to have workers: those that it had have to go, and then it is up for the plan, or waits for something else.

A worker's pod has the same name in every attempt, so the next one cannot begin before the last pod is gone. On a node that does
not answer any more it would never go; after ``lostNodeRemovalSeconds`` its pod is removed without waiting for the kubelet. What
then may run twice, and for how long, is in docs/jobs.md.
"""

from __future__ import annotations

from dataclasses import replace

from laneway.api.clock_text import to_seconds, to_text
from laneway.api.job_standing import AvoidedNodeStatus, WaitingStatus
from laneway.api.training_job import ConditionType, TrainingJobStatus
from laneway.operator import transitions
from laneway.operator.admission import is_admitted
from laneway.operator.deadline import past_deadline
from laneway.operator.eligibility import set_aside
from laneway.operator.gang import SETBACKS, Surroundings
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.refusals import UNBLOCK, RefusalReason
from laneway.operator.sessions import actual_gpus
from laneway.operator.standing import Facts, Happening, Standing
from laneway.scheduling import JobState, WorkerPlacement

_LONGEST_BACKOFF_SECONDS = 300.0
_MOST_DOUBLINGS = 9
"""A second that is doubled so often is longer than the longest wait. What comes in a row may do so for ever, and floats end."""

_NAME_TAKEN_SECONDS = 10.0
"""The workers of a deleted job end within their grace period; after so long it is tried whether they have."""


def leaving(standing: Standing, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """The job is not to have workers: those that are alive have to go, and hold their GPUs until they are gone."""
    alive = [pod for pod in pods if not pod.ended]
    # The pods of a finished job stay for their logs; those of one that is to start again are in its way.
    doomed = tuple(pod for pod in (alive if standing.job.finished else pods) if not pod.deleting)
    holding: dict[int, WorkerPlacement] = {}
    accounted = set()
    for pod in alive:
        gpus = actual_gpus(pod, facts.around.sessions)
        if gpus and pod.share_percent and pod.rank not in holding:
            holding[pod.rank] = WorkerPlacement(pod.rank, pod.node, gpus, pod.share_percent)
            accounted.add(pod.uid)
    holds = tuple(holding[rank] for rank in sorted(holding))
    forsaken, due_seconds = _forsaken(pods, facts.around)
    return replace(
        standing,
        state=JobState.LEAVING if holds and standing.job.wish is not None else None,
        holds=holds,
        accounted=frozenset(accounted) if standing.job.wish is not None else frozenset(),
        doomed=doomed,
        forsaken=forsaken,
        present=frozenset(),
        due_seconds=due_seconds if standing.due_seconds is None else standing.due_seconds,
    )


def _forsaken(
    pods: tuple[WorkerPod, ...], around: Surroundings
) -> tuple[tuple[WorkerPod, ...], float | None]:
    """Return the pods that are to be removed without their node, and when the next one is due."""
    patience_seconds = around.patience.lost_node_removal_seconds
    if not patience_seconds:
        return (), None
    found, due_seconds = [], []
    for pod in pods:
        node = around.nodes.get(pod.node)
        since = None if node is None else node.not_ready_since_seconds
        if not pod.deleting or not pod.bound or since is None:
            continue
        if around.now_seconds >= since + patience_seconds:
            found.append(pod)
        else:
            due_seconds.append(since + patience_seconds)
    return tuple(found), min(due_seconds, default=None)


def had_succeeded(standing: Standing, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing | None:
    """Return where a job stands whose workers had all succeeded when it was told to make way, which nobody knew; None if not.

    A worker that is told to end may well end with exit code 0: only one that had ended before counts. Containers' times have
    whole seconds, so one that ended in the very second does not.
    """
    job, making_way = standing.job, standing.job.status.preemption
    mine = [pod for pod in pods if pod.attempt == job.status.attempt]
    if making_way is None or job.wish is None or len(mine) != job.wish.demand.workers:
        return None
    ends = [pod.finished_seconds for pod in mine if pod.phase == "Succeeded"]
    told_seconds = to_seconds(making_way.since)
    if len(ends) < len(mine) or any(end is None or end + 1.0 > told_seconds for end in ends):
        return None
    end_seconds = max(end for end in ends if end is not None)
    message = "its workers had ended with exit code 0 before it was told to make way"
    status = transitions.succeeded(job.status, message, end_seconds, facts.now_seconds)
    return standing.becomes(status, Happening("Succeeded", message))


def wait(standing: Standing, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Say whether a job without GPUs is up for the plan; if not, its status says why."""
    job, now_seconds = standing.job, facts.now_seconds
    if job.finished or job.wish is None or not is_admitted(job):
        return standing
    if (over := past_deadline(standing, job.wish.spec.active_deadline_seconds, now_seconds)) is not None:
        return over
    status = transitions.changed(
        job.status,
        avoid=avoided(job, facts),
        failures=transitions.lately_failed(job.status, now_seconds),
    )
    standing = standing.becomes(status)
    if pods:
        return standing.becomes(_until_gone(status, pods, facts.around))
    again_seconds = _backoff_until(status, facts)
    if again_seconds is not None and again_seconds > now_seconds and not job.wish.spec.suspend:
        return replace(standing.becomes(_backing_off(status, again_seconds)), due_seconds=again_seconds)
    due_seconds = min((to_seconds(each.until) for each in status.avoid), default=None)
    return replace(standing, state=JobState.WAITING, due_seconds=due_seconds)


def avoided(job: JobRecord, facts: Facts) -> tuple[AvoidedNodeStatus, ...]:
    """Return the nodes that the job is still to avoid. Where people keep it off by a cordon or a taint, that takes the place of what it
    has learnt of the node: when they take it back, the node is as good as new."""
    unexpired = transitions.unexpired(job.status.avoid, facts.now_seconds)
    if job.wish is None:
        return unexpired
    pod_spec, nodes = job.wish.spec.template["spec"], facts.around.nodes
    return tuple(
        each for each in unexpired if each.node not in nodes or not set_aside(pod_spec, nodes[each.node])
    )


def after_the_end(standing: Standing, facts: Facts) -> Standing:
    """See to it that an ended job is deleted in time."""
    job = standing.job
    ttl_seconds = job.wish.spec.ttl_seconds_after_finished if job.wish else None
    completed = job.status.completion_time
    if ttl_seconds is None or completed is None or job.deleting:
        return standing
    due_seconds = to_seconds(completed) + ttl_seconds
    return replace(standing, due_seconds=due_seconds, expired=due_seconds <= facts.now_seconds)


def _until_gone(
    status: TrainingJobStatus, pods: tuple[WorkerPod, ...], around: Surroundings
) -> TrainingJobStatus:
    names = ", ".join(f"{pod.name} on {pod.node or 'no node'}" for pod in pods[:3])
    more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
    removal_seconds = around.patience.lost_node_removal_seconds
    goes = "when the node is back, deleted, or tainted out-of-service"
    if removal_seconds:
        goes = f"{goes}, or has not been ready for {removal_seconds} s"
    unblock = f"their end; a pod on a node that does not answer goes {goes}"
    return _waits_for(status, transitions.ENDING, f"its last workers are ending: {names}{more}", unblock)


def _backoff_until(status: TrainingJobStatus, facts: Facts) -> float | None:
    """Return when a job that failed, was refused or did not start may be tried again; the Placed condition remembers what happened."""
    placed = transitions.condition(status, ConditionType.PLACED)
    if placed is None or placed.status != "False":
        return None
    since_seconds, patience = to_seconds(placed.last_transition_time), facts.around.patience
    if placed.reason == "WorkerFailed":
        in_a_row = sum(each.count for each in transitions.lately_failed(status, since_seconds))
        return since_seconds + _doubled(patience.restart_backoff_seconds, in_a_row)
    if placed.reason in SETBACKS and (unstarted := status.unstarted_attempts or 0) > 1:
        return since_seconds + _doubled(patience.restart_backoff_seconds, unstarted - 1)
    if placed.reason == RefusalReason.NAME_TAKEN:
        return since_seconds + min(_NAME_TAKEN_SECONDS, patience.refusal_backoff_seconds)
    if placed.reason in UNBLOCK:
        return since_seconds + patience.refusal_backoff_seconds
    return None


def _doubled(first_seconds: float, times: int) -> float:
    """Return how long to wait for the n-th time in a row."""
    doublings = min(max(0, times - 1), _MOST_DOUBLINGS)
    return min(first_seconds * 2.0**doublings, _LONGEST_BACKOFF_SECONDS)


def _backing_off(status: TrainingJobStatus, again_seconds: float) -> TrainingJobStatus:
    placed = transitions.condition(status, ConditionType.PLACED)
    assert placed is not None, "who backs off does so for what this condition says"
    said = [placed.message]
    if placed.reason in SETBACKS:
        said.append(f"{status.unstarted_attempts} attempts in a row ended before all workers ran")
    said.append(f"starts again not before {to_text(again_seconds)}")
    return _waits_for(status, transitions.BACKING_OFF, "; ".join(said), UNBLOCK.get(placed.reason, "time"))


def _waits_for(status: TrainingJobStatus, reason: str, message: str, unblock: str) -> TrainingJobStatus:
    since = status.waiting.since if status.waiting else None
    waiting = WaitingStatus(reason=reason, message=message, unblock=unblock, since=since)
    return transitions.changed(status, waiting=waiting)
