"""A TrainingJob as the page shows it. Names of the result are those of the API where there is one."""

from __future__ import annotations

from typing import Any

from laneway.api.job_conditions import SummaryState
from laneway.api.names import OPERATOR_MANAGER
from laneway.api.training_job import GPURequestType
from laneway.board.views.fields import Object, count, flag, items, number, part, text, texts


def job_view(job: Object) -> dict[str, Any]:
    """Return what the page shows of a TrainingJob.

    Times are texts of the API, durations are in milliseconds. A field that the object lacks is 0, empty or None.
    """
    status = part(job, "status") or {}
    return {
        "key": f"{text(job, 'metadata', 'namespace')}/{text(job, 'metadata', 'name')}",
        "namespace": text(job, "metadata", "namespace"),
        "name": text(job, "metadata", "name"),
        "uid": text(job, "metadata", "uid"),
        "created": text(job, "metadata", "creationTimestamp"),
        "request": _request(job),
        "requestedGpus": _requested_gpus(job),
        "priorityClass": text(job, "spec", "priorityClassName"),
        "otherController": _other_controller(job),
        "state": text(status, "state") or str(SummaryState.PENDING),
        "reason": text(status, "reason"),
        "queue": count(status, "queue"),
        "workers": count(status, "workers"),
        "serviceGpuMilliseconds": count(status, "attainedServiceGPUMilliseconds"),
        "executedMilliseconds": count(status, "executedMilliseconds"),
        "waitedMilliseconds": count(status, "waitedMilliseconds"),
        "turns": count(status, "turns"),
        "startTime": text(status, "startTime"),
        "completionTime": text(status, "completionTime"),
        "attempts": _attempts(status),
        "progress": _progress(status),
        "unsaved": _unsaved(status),
        "waiting": _waiting(status),
        "preemption": _preemption(part(status, "preemption")),
        "lastPreemption": _preemption(part(status, "lastPreemption")),
        "endedAttempts": [_ended_attempt(attempt) for attempt in items(status, "endedAttempts")],
        "placement": [_worker(worker) for worker in items(status, "placement")],
        "failures": [_failure(failure) for failure in items(status, "failures")],
        "conditions": [_condition(condition) for condition in items(status, "conditions")],
    }


def _request(job: Object) -> str:
    """Return the request as people write it: ``2 × 50 % of a GPU``, ``4 × 2 GPUs``, ``8Gi of a GPU``."""
    gpus = part(job, "spec", "gpus") or {}
    kind = text(gpus, "type")
    if kind == GPURequestType.SHARE:
        each = f"{count(gpus, 'sharePercent')} % of a GPU"
    elif kind == GPURequestType.MEMORY:
        each = f"{text(gpus, 'memory')} of a GPU"
    else:
        each = "1 GPU" if count(gpus, "count") == 1 else f"{count(gpus, 'count')} GPUs"
    workers = _workers(job)
    return each if workers == 1 else f"{workers} × {each}"


def _requested_gpus(job: Object) -> float | None:
    """Return the number of GPUs of all workers; None for a request of memory, whose share depends on the GPU."""
    gpus = part(job, "spec", "gpus") or {}
    kind = text(gpus, "type")
    if kind == GPURequestType.SHARE:
        return _workers(job) * count(gpus, "sharePercent") / 100
    return None if kind == GPURequestType.MEMORY else float(_workers(job) * count(gpus, "count"))


def _workers(job: Object) -> int:
    return count(job, "status", "workers") or count(job, "spec", "workers") or 1


def _other_controller(job: Object) -> str:
    manager = text(job, "spec", "managedBy")
    return "" if manager == OPERATOR_MANAGER else manager


def _attempts(status: Object) -> dict[str, Any]:
    executed = count(status, "executedMilliseconds")
    return {
        "number": count(status, "attempt"),
        "workers": count(status, "attemptWorkers"),
        "startedAt": text(status, "execution", "startedAt")
        if count(status, "execution", "attempt") == count(status, "attempt")
        else "",
        "executedMilliseconds": max(0, executed - count(status, "executedBeforeAttemptMilliseconds")),
        "restarts": count(status, "restarts"),
        "preemptions": count(status, "preemptions"),
        "rescales": count(status, "rescales"),
        "unstarted": count(status, "unstartedAttempts"),
    }


def _progress(status: Object) -> dict[str, Any] | None:
    progress = part(status, "progress")
    if progress is None:
        return None
    return {
        "percent": None if number(progress, "percent") is None else min(100, count(progress, "percent")),
        "step": number(progress, "step"),
        "steps": number(progress, "steps"),
        "epoch": number(progress, "epoch"),
        "iterations": count(progress, "iterations"),
        "loss": text(progress, "loss"),
        "remainingSeconds": number(progress, "remainingSeconds"),
        "updatedAt": text(progress, "updatedAt"),
    }


def _unsaved(status: Object) -> dict[str, Any]:
    """Return what an eviction would lose now: the running time since the last checkpoint."""
    since = text(status, "progress", "unsavedSince")
    executed, saved = (
        count(status, "executedMilliseconds"),
        count(status, "progress", "savedExecutedMilliseconds"),
    )
    return {
        "since": since,
        "milliseconds": max(0, executed - saved) if since else None,
        "countedAt": text(status, "serviceCountedAt"),
        "lastCheckpoint": text(status, "progress", "lastCheckpointTime"),
        "resumes": flag(status, "progress", "resumes"),
        "warning": text(status, "progress", "warning"),
    }


def _waiting(status: Object) -> dict[str, Any] | None:
    waiting = part(status, "waiting")
    if waiting is None:
        return None
    return {
        "position": count(waiting, "position"),
        "since": text(waiting, "since"),
        "reason": text(waiting, "reason"),
        "message": text(waiting, "message"),
        "unblock": text(waiting, "unblock"),
        "estimatedStart": text(waiting, "estimatedStart"),
        "estimateBasis": text(waiting, "estimateBasis"),
        "blockers": texts(waiting, "blockers"),
        "blockersElsewhere": count(waiting, "blockersElsewhere"),
        "ahead": texts(waiting, "ahead"),
        "aheadElsewhere": count(waiting, "aheadElsewhere"),
        "alternatives": texts(waiting, "alternatives"),
    }


def _preemption(preemption: Object | None) -> dict[str, Any] | None:
    if preemption is None:
        return None
    return {
        "action": text(preemption, "action"),
        "preemptor": text(preemption, "preemptor"),
        "reason": text(preemption, "reason"),
        "message": text(preemption, "message"),
        "costMilliseconds": number(preemption, "costMilliseconds"),
        "since": text(preemption, "since"),
        "reachedAt": text(preemption, "reachedAt"),
    }


def _ended_attempt(attempt: Object) -> dict[str, Any]:
    return {
        "attempt": count(attempt, "attempt"),
        "startedAt": text(attempt, "startedAt"),
        "endedAt": text(attempt, "endedAt"),
        "workers": count(attempt, "workers"),
        "nodes": texts(attempt, "nodes"),
        "outcome": text(attempt, "outcome"),
        "reason": text(attempt, "reason"),
        "message": text(attempt, "message"),
        "serviceGpuMilliseconds": count(attempt, "attainedServiceGPUMilliseconds"),
        "lostGpuMilliseconds": number(attempt, "lostServiceGPUMilliseconds"),
    }


def _worker(worker: Object) -> dict[str, Any]:
    return {
        "rank": count(worker, "worker"),
        "node": text(worker, "node"),
        "gpus": texts(worker, "gpus"),
        "sharePercent": count(worker, "sharePercent"),
    }


def _failure(failure: Object) -> dict[str, Any]:
    return {"node": text(failure, "node"), "count": count(failure, "count"), "last": text(failure, "last")}


def _condition(condition: Object) -> dict[str, Any]:
    return {
        "type": text(condition, "type"),
        "status": text(condition, "status"),
        "reason": text(condition, "reason"),
        "message": text(condition, "message"),
        "since": text(condition, "lastTransitionTime"),
    }
