"""Counts what a written status says has happened to a job.

A status is counted once, after the API server has stored it, by its difference from the one before. So the counters of all replicas
together lose and double nothing, except where the response to a write is lost.
"""

from __future__ import annotations

from laneway.api.conditions import is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import parse_time
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.lifecycle import accounting
from laneway.operator.namespace_metrics import NamespaceMetrics
from laneway.operator.state.records.job_record import JobRecord


def count(metrics: NamespaceMetrics, write: JobWrite) -> None:
    """Count a write whose status was stored."""
    job, before, after = write.job, write.job.status, write.status
    namespace = job.namespace
    metrics.begin(namespace)
    held = after.held_gpu_milliseconds - before.held_gpu_milliseconds
    if held > 0:  # less where a lane was missing, and the time is taken back
        metrics.held_gpu_seconds.labels(namespace).inc(held / 1000)
    _count_loss(metrics, namespace, before, after)
    if (preemption := after.preemption) is not None and after.preemptions > before.preemptions:
        preemptions = metrics.preemptions.labels(namespace, preemption.action, preemption.reason)
        preemptions.inc(after.preemptions - before.preemptions)
    metrics.restarts.labels(namespace).inc(max(0, after.restarts - before.restarts))
    metrics.rescales.labels(namespace).inc(after.rescales - before.rescales)
    metrics.gang_rollbacks.labels(namespace).inc(sum(e.reason == "Rollback" for e in write.after.events))
    if (waited_seconds := write.waited_seconds) is not None:
        metrics.wait_duration.labels(namespace).observe(waited_seconds)
    if before.completion_time is None and after.completion_time is not None:
        _count_end(metrics, job, after, parse_time(after.completion_time))


def _count_end(
    metrics: NamespaceMetrics, job: JobRecord, status: TrainingJobStatus, ended_seconds: float
) -> None:
    succeeded = is_true(status.conditions, ConditionType.COMPLETE)
    taken_seconds = max(0.0, ended_seconds - job.created_seconds)
    result = "succeeded" if succeeded else "failed"
    metrics.completion_duration.labels(job.namespace, result).observe(taken_seconds)
    executed_seconds = accounting.executed_seconds(status)
    if succeeded and executed_seconds:
        metrics.slowdown.labels(job.namespace).observe(taken_seconds / executed_seconds)


def _count_loss(
    metrics: NamespaceMetrics, namespace: str, before: TrainingJobStatus, after: TrainingJobStatus
) -> None:
    """Count the work that an attempt loses which ends before the job does. If what it loses is unknown, it is taken to save when it is told
    to stop."""
    if after.completion_time is not None or after.ended_attempts == before.ended_attempts:
        return
    ended = after.ended_attempts[-1]
    if ended.lost_service_gpu_milliseconds:
        lost = metrics.lost_gpu_seconds.labels(namespace, ended.outcome)
        lost.inc(ended.lost_service_gpu_milliseconds / 1000 * _held_ratio(after))


def _held_ratio(status: TrainingJobStatus) -> float:
    """Return which part of its shares a job held on average: less than 1 where it took turns with others."""
    attained = status.attained_service_gpu_milliseconds
    return status.held_gpu_milliseconds / attained if attained else 1.0
