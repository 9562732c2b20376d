"""Whether a job may be scheduled at all: a spec that makes sense, a priority class that is there, a template that is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from laneway.api.conditions import is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconciled_job import JobEvent, ReconcileContext, ReconciledJob
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.priority_class import PriorityClassRecord
from laneway.operator.state.records.worker_pod import WorkerPod

ACCEPTED = "Accepted"
"""Reason of the event that tells that a spec is valid."""

_UNBLOCK = {
    "InvalidSpec": "Correct the spec.",
    "InvalidTemplate": "Correct the template.",
    "UnknownPriorityClass": "Create the PriorityClass, or name another one.",
}


def admit(reconciled: ReconciledJob, pods: tuple[WorkerPod, ...], context: ReconcileContext) -> ReconciledJob:
    """Set the condition Accepted, and the job's priority."""
    job, now_seconds = reconciled.job, context.now_seconds
    if job.desired is None:
        return _refuse(reconciled, "InvalidSpec", job.problem, now_seconds)
    name = job.desired.spec.effective_priority_class_name
    priority = _priority(name, context.state.priority_classes)
    if priority is None and job.placed:
        # The class was deleted; what runs keeps its value.
        priority = max((pod.priority for pod in pods), default=0)
    if priority is None:
        there = ", ".join(sorted(context.state.priority_classes)) or "those that you create"
        message = f"PriorityClass {name!r} does not exist: create it, use one of {there}, or leave priorityClassName out."
        return _refuse(reconciled, "UnknownPriorityClass", message, now_seconds)
    reconciled = replace(reconciled, priority=priority)
    refusal = job.desired.reserved or context.template_refusals.get((job.uid, job.generation), "")
    if refusal and not job.placed:
        return _refuse(reconciled, "InvalidTemplate", refusal, now_seconds)
    status = _observed(transitions.admitted(job.status, now_seconds), job)
    if is_admitted(job):
        return reconciled.becomes(status)
    return reconciled.becomes(status, JobEvent(ACCEPTED, "The spec is valid; the job may be scheduled."))


def is_admitted(job: JobRecord) -> bool:
    """Whether the job may be scheduled."""
    return is_true(job.status.conditions, ConditionType.ACCEPTED)


def _refuse(reconciled: ReconciledJob, reason: str, message: str, now_seconds: float) -> ReconciledJob:
    job = reconciled.job
    was = transitions.condition(job.status, ConditionType.ACCEPTED)
    status = _observed(transitions.refused(job.status, reason, message, now_seconds), job)
    if not job.placed:
        status = transitions.waits(status, reason, message, job.created_seconds, _UNBLOCK[reason])
    if was is not None and (was.status, was.reason, was.message) == ("False", reason, message):
        return reconciled.becomes(status)
    return reconciled.becomes(status, JobEvent("Refused", message, warning=True))


def _priority(name: str | None, classes: Mapping[str, PriorityClassRecord]) -> int | None:
    if name is None:
        return next((each.value for each in classes.values() if each.is_default), 0)
    found = classes.get(name)
    return None if found is None else found.value


def _observed(status: TrainingJobStatus, job: JobRecord) -> TrainingJobStatus:
    return transitions.changed(status, observed_generation=job.generation)
