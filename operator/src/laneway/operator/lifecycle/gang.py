"""What became of a gang's attempt, judged from its pods and nodes: a pure function of what the cluster says."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from laneway.api.gpu_node import GPUStatus
from laneway.api.job_conditions import ALL_WORKERS_RUN
from laneway.api.rfc3339 import parse_time
from laneway.operator.lifecycle.reconciled_job import ReconcileContext
from laneway.operator.lifecycle.refusals import reason_of
from laneway.operator.state.records.worker_pod import WorkerFailure, WorkerPod
from laneway.operator.state.sessions import evicted, noteworthy
from laneway.operator.state.sick_gpus import on_sick_gpus

_TELLING = 60
"""So many characters at its end tell one message from another."""

_CONDITION_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]*")


class Outcome(StrEnum):
    """What is known of an attempt."""

    STARTING = "Starting"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    """A worker's own process failed: the user's to answer for."""

    ROLLED_BACK = "RolledBack"
    """It could not start as a whole: nobody's failure, tried again elsewhere."""

    DISRUPTED = "Disrupted"
    """The cluster took a running worker away: nobody's failure, tried again."""


class DisruptionReason(StrEnum):
    """What ended an attempt that is nobody's failure, and no refusal by the API server: the reason of Placed=False after it."""

    WORKER_REFUSED = "WorkerRefused"
    WORKER_UNSCHEDULABLE = "WorkerUnschedulable"
    GANG_TIMEOUT = "GangTimeout"
    WORKER_DISRUPTED = "WorkerDisrupted"
    GPU_UNHEALTHY = "GPUUnhealthy"
    NODE_LOST = "NodeLost"


DISRUPTION_REASONS = frozenset(DisruptionReason)


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The judgement on one attempt."""

    outcome: Outcome
    reason: str
    """One CamelCase word."""

    message: str
    """A sentence."""

    avoid: tuple[str, ...] = ()
    """Nodes to keep away from for a while."""

    failed_on: str = ""
    """Where the worker was that failed first; empty where none did, or where that is not known."""

    started_seconds: float | None = None
    """When the last of its workers started; None where not all did."""

    ended_seconds: float | None = None
    """When the attempt ended; None where it goes on."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The input of :func:`evaluate_attempt`."""

    workers: int
    placed_seconds: float
    was_running: bool
    """Whether all workers were seen to run before: a pod that is missing then is a loss, not one yet to be made."""

    pods: Sequence[WorkerPod]
    """Those of this attempt."""

    placed_on: Mapping[int, str] = field(default_factory=dict)
    """The node of each worker, by rank."""

    refused: str = ""
    """Why the API server refused one of its pods or its Service, as a sentence; empty if it refused none."""


def evaluate_attempt(attempt: Attempt, context: ReconcileContext) -> AttemptResult:
    """Return what became of the attempt. What weighs most comes first: who is to blame decides what happens next."""
    if attempt.refused:
        return _ended(Outcome.ROLLED_BACK, reason_of(attempt.refused), attempt.refused, context)
    return (
        _refused_by_kubelet(attempt, context)
        or _disrupted(attempt, context)
        or _taken_unseen(attempt, context)
        or _on_sick_gpu(attempt, context)
        or _failed(attempt, context)
        or _lost(attempt, context)
        or _succeeded(attempt)
        or _running(attempt)
        or _stuck(attempt, context)
        or _starting(attempt)
    )


def has_run(attempt: Attempt) -> bool:
    """Whether all of its workers ran, if only for a moment that nobody has seen: their containers' times tell."""
    return attempt.was_running or _all_started_seconds(attempt) is not None


def _ended(
    outcome: Outcome, reason: str, message: str, context: ReconcileContext, avoid: tuple[str, ...] = ()
) -> AttemptResult:
    return AttemptResult(outcome, reason, message, avoid, ended_seconds=context.now_seconds)


def _refused_by_kubelet(attempt: Attempt, context: ReconcileContext) -> AttemptResult | None:
    refused = [pod for pod in attempt.pods if pod.refusal]
    if not refused:
        return None
    first = refused[0]
    message = f"worker {first.rank} could not start on {first.node}: {first.refusal}"
    return _ended(Outcome.ROLLED_BACK, DisruptionReason.WORKER_REFUSED, message, context, _nodes(refused))


def _disrupted(attempt: Attempt, context: ReconcileContext) -> AttemptResult | None:
    taken = [pod for pod in attempt.pods if pod.disruption or (pod.deleting and pod.phase != "Succeeded")]
    if not taken:
        return None
    first = taken[0]
    why = first.disruption or "somebody deleted its pod"
    message = f"worker {first.rank} was taken away from {first.node or 'its node'}: {why}"
    # A node that evicts does so for a reason; one whose pod a person deleted is as good as before.
    evicting = _nodes(pod for pod in taken if pod.disruption)
    return _ended(Outcome.DISRUPTED, DisruptionReason.WORKER_DISRUPTED, message, context, evicting)


def _taken_unseen(attempt: Attempt, context: ReconcileContext) -> AttemptResult | None:
    """A worker was taken away while nobody looked, as when its node was drained with the operator on it: if the others have failed since,
    they failed because they lost it."""
    missing = _missing(attempt)
    if not attempt.was_running or not missing:
        return None
    node = attempt.placed_on.get(missing[0], "")
    where = f", which was on {node}," if node else ""
    message = f"the pod of worker {missing[0]}{where} is gone"
    return _ended(Outcome.DISRUPTED, DisruptionReason.WORKER_DISRUPTED, message, context)


def _on_sick_gpu(attempt: Attempt, context: ReconcileContext) -> AttemptResult | None:
    """Workers leave an unhealthy GPU only after ``unhealthy_gpu_seconds``, because it may recover. If a worker has failed
    meanwhile, the GPU is blamed at once, even if it is a peer's GPU."""
    failed = next((pod for pod in attempt.pods if pod.failure), None)
    for pod, gpu in on_sick_gpus(attempt.pods, context.state):
        if failed is None and context.now_seconds < _sick_since(gpu) + context.timeouts.unhealthy_gpu_seconds:
            continue
        reason = gpu.health_reason or "its node gives no reason"
        message = f"worker {pod.rank} is on GPU {gpu.uuid} of {pod.node}, which is out of use: {reason}"
        if failed is not None:
            message = f"worker {failed.rank} failed while {message}"
        return _ended(Outcome.DISRUPTED, DisruptionReason.GPU_UNHEALTHY, message, context)
    return None


def due_on_sick_gpus_seconds(pods: Iterable[WorkerPod], context: ReconcileContext) -> float:
    """Return when the first of these workers is to leave a GPU that is out of use; infinite where none is on one."""
    sick = on_sick_gpus(pods, context.state)
    return min(
        (_sick_since(gpu) + context.timeouts.unhealthy_gpu_seconds for _, gpu in sick), default=math.inf
    )


def _sick_since(gpu: GPUStatus) -> float:
    """By its node's word; 0, long ago, where the node does not say."""
    return 0.0 if gpu.unhealthy_since is None else parse_time(gpu.unhealthy_since)


def _failed(attempt: Attempt, context: ReconcileContext) -> AttemptResult | None:
    """A worker that its node stopped for what it did has failed, whatever its script makes of SIGTERM."""
    stopped = {pod.rank: evicted(pod, context.state.sessions) for pod in attempt.pods if pod.ended}
    failed = [pod for pod in attempt.pods if pod.failure or stopped.get(pod.rank)]
    if not failed:
        return None
    cause = min(failed, key=lambda pod: (not stopped.get(pod.rank), *_likely_cause(pod)))
    failure = cause.failure or WorkerFailure("Completed", "", 0)
    reason = stopped.get(cause.rank) or failure.reason
    code = "" if failure.exit_code is None else f" with exit code {failure.exit_code}"
    message = f"worker {cause.rank} on {cause.node or 'no node'} ended{code} ({reason})"
    noted, words = noteworthy(cause, context.state.sessions), failure.message
    if noted and words[-_TELLING:] in noted:
        words = ""  # the node says it too
    details = [text for text in (noted, words) if text]
    started_seconds = _all_started_seconds(attempt)
    return AttemptResult(
        Outcome.FAILED,
        reason if _CONDITION_REASON.fullmatch(reason) else "WorkerFailed",
        ": ".join([message, *details]),
        failed_on=cause.node if cause.bound else "",
        started_seconds=started_seconds,
        ended_seconds=_all_ended_seconds(attempt) or context.now_seconds,
    )


def _likely_cause(pod: WorkerPod) -> tuple[bool, float, bool, int]:
    """The worker that failed first is to blame; those that lost their peer fail after it. Times have whole seconds only."""
    finished = float("inf") if pod.finished_seconds is None else pod.finished_seconds
    killed = pod.failure is not None and pod.failure.reason == "OOMKilled"
    return not killed, finished, pod.failure is None or not pod.failure.message, pod.rank


def _lost(attempt: Attempt, context: ReconcileContext) -> AttemptResult | None:
    for pod in attempt.pods:
        if pod.ended or not pod.bound:
            continue
        node = context.state.nodes.get(pod.node)
        if node is None:
            message = f"worker {pod.rank} was on {pod.node}, which is gone"
            return _ended(Outcome.DISRUPTED, DisruptionReason.NODE_LOST, message, context)
        since = node.not_ready_since_seconds
        if since is not None and context.now_seconds - since >= context.timeouts.lost_node_seconds:
            message = f"worker {pod.rank} is on {pod.node}, which has not been ready for {context.now_seconds - since:.0f} s"
            return _ended(Outcome.DISRUPTED, DisruptionReason.NODE_LOST, message, context, (pod.node,))
    return None


def _succeeded(attempt: Attempt) -> AttemptResult | None:
    if _missing(attempt) or any(pod.phase != "Succeeded" for pod in attempt.pods):
        return None
    workers = "the worker" if attempt.workers == 1 else f"all {attempt.workers} workers"
    return AttemptResult(
        Outcome.SUCCEEDED,
        "AllWorkersSucceeded",
        f"{workers} ended with exit code 0",
        started_seconds=_all_started_seconds(attempt),
        ended_seconds=_all_ended_seconds(attempt),
    )


def _running(attempt: Attempt) -> AttemptResult | None:
    if _missing(attempt) or not all(pod.started for pod in attempt.pods):
        return None
    workers = "the worker runs" if attempt.workers == 1 else f"all {attempt.workers} workers run"
    started_seconds = _all_started_seconds(attempt)
    return AttemptResult(Outcome.RUNNING, ALL_WORKERS_RUN, workers, started_seconds=started_seconds)


def _stuck(attempt: Attempt, context: ReconcileContext) -> AttemptResult | None:
    now_seconds, timeouts = context.now_seconds, context.timeouts
    refused = [
        pod
        for pod in attempt.pods
        if pod.unschedulable_since_seconds is not None
        and now_seconds - pod.unschedulable_since_seconds >= timeouts.unschedulable_seconds
    ]
    if refused:
        first = refused[0]
        message = f"kube-scheduler does not let worker {first.rank} on {first.node}: {first.unschedulable}"
        return _ended(
            Outcome.ROLLED_BACK, DisruptionReason.WORKER_UNSCHEDULABLE, message, context, _nodes(refused)
        )
    if now_seconds - attempt.placed_seconds >= timeouts.gang_timeout_seconds:
        late = [pod for pod in attempt.pods if not pod.started]
        message = f"not all workers ran within {timeouts.gang_timeout_seconds} s: {_progress(attempt)}"
        return _ended(Outcome.ROLLED_BACK, DisruptionReason.GANG_TIMEOUT, message, context, _nodes(late))
    return None


def _starting(attempt: Attempt) -> AttemptResult:
    return AttemptResult(Outcome.STARTING, "Starting", _progress(attempt))


def _progress(attempt: Attempt) -> str:
    running = sum(pod.started for pod in attempt.pods)
    text = f"{running} of {attempt.workers} workers run"
    for pod in attempt.pods:
        if not pod.started:
            held_up = pod.waits_for or pod.unschedulable or ("" if pod.bound else "not scheduled yet")
            return text + f"; worker {pod.rank} on {pod.node}" + (f": {held_up}" if held_up else " starts")
    missing = _missing(attempt)
    return text + (f"; the pod of worker {missing[0]} is yet to be made" if missing else "")


def _missing(attempt: Attempt) -> list[int]:
    there = {pod.rank for pod in attempt.pods}
    return [rank for rank in range(attempt.workers) if rank not in there]


def _nodes(pods: Iterable[WorkerPod]) -> tuple[str, ...]:
    return tuple(sorted({pod.node for pod in pods if pod.node}))


def _all_started_seconds(attempt: Attempt) -> float | None:
    # One container may run while another one of its pod cannot start.
    times = [pod.started_seconds if pod.started else None for pod in attempt.pods]
    if len(times) < attempt.workers or any(time is None for time in times):
        return None
    return max(time for time in times if time is not None)


def _all_ended_seconds(attempt: Attempt) -> float | None:
    times = [pod.finished_seconds for pod in attempt.pods if pod.ended]
    if len(times) < len(attempt.pods) or any(time is None for time in times):
        return None
    return max((time for time in times if time is not None), default=None)
