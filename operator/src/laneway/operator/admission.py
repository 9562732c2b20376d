"""Whether a job may be scheduled at all: a spec that makes sense, a priority class that is there, a template that is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from laneway.api.clock_text import to_text
from laneway.api.conditions import is_true
from laneway.api.job_standing import WaitingStatus
from laneway.api.training_job import ConditionType, TrainingJobStatus
from laneway.operator import transitions
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.priority_class import PriorityClassRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.standing import Facts, Happening, Standing

_UNBLOCK = {
    "InvalidSpec": "a corrected spec",
    "InvalidTemplate": "a corrected template",
    "UnknownPriorityClass": "the PriorityClass being there",
}


def admit(standing: Standing, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Set the condition Admitted, and the job's priority."""
    job, now_seconds = standing.job, facts.now_seconds
    if job.wish is None:
        return _refuse(standing, "InvalidSpec", job.problem, now_seconds)
    name = job.wish.spec.priority_class_name
    priority = _priority(name, facts.priority_classes)
    if priority is None and job.placed:
        # The class was deleted; what runs keeps its value.
        priority = max((pod.priority for pod in pods), default=0)
    if priority is None:
        there = ", ".join(sorted(facts.priority_classes)) or "those that you create"
        message = f"priorityClassName: there is no PriorityClass {name!r}: create it, or write one of {there}, or leave it out"
        return _refuse(standing, "UnknownPriorityClass", message, now_seconds)
    standing = replace(standing, priority=priority)
    refusal = facts.template_refusals.get((job.uid, job.generation), "")
    if refusal and not job.placed:
        return _refuse(standing, "InvalidTemplate", refusal, now_seconds)
    status = _observed(transitions.admitted(job.status, now_seconds), job)
    if is_admitted(job):
        return standing.becomes(status)
    return standing.becomes(status, Happening("Admitted", "the job may be scheduled"))


def is_admitted(job: JobRecord) -> bool:
    """Whether the job may be scheduled."""
    return is_true(job.status.conditions, ConditionType.ADMITTED)


def _refuse(standing: Standing, reason: str, message: str, now_seconds: float) -> Standing:
    job = standing.job
    was = transitions.condition(job.status, ConditionType.ADMITTED)
    status = _observed(transitions.refused(job.status, reason, message, now_seconds), job)
    if not job.placed:
        waiting = WaitingStatus(
            reason=reason,
            message=message,
            unblock=_UNBLOCK[reason],
            since=status.waiting.since if status.waiting else to_text(job.created_seconds),
        )
        status = transitions.changed(status, waiting=waiting)
    if was is not None and (was.status, was.reason, was.message) == ("False", reason, message):
        return standing.becomes(status)
    return standing.becomes(status, Happening("Refused", message, warning=True))


def _priority(name: str | None, classes: Mapping[str, PriorityClassRecord]) -> int | None:
    if name is None:
        return next((each.value for each in classes.values() if each.is_default), 0)
    found = classes.get(name)
    return None if found is None else found.value


def _observed(status: TrainingJobStatus, job: JobRecord) -> TrainingJobStatus:
    return transitions.changed(status, observed_generation=job.generation)
