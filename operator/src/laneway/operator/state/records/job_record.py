"""A TrainingJob, with the sentence that says what is wrong where it cannot be read."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from laneway.api.conditions import Condition, is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.names import OPERATOR_MANAGER
from laneway.api.records import explain
from laneway.api.reserved_names import mounts_problem, template_problem
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job import MAX_SECONDS, MAX_WORKERS, PreemptionMode, TrainingJobSpec
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.state.records.template_check import check_template
from laneway.operator.state.records.template_hash import template_hash
from laneway.operator.state.records.trainer_cpus import RequestedCPUs, requested_cpus
from laneway.operator.state.records.worker_pod import trainer_of
from laneway.scheduling import Demand
from laneway.scheduling.model.spec_demand import demand_of
from pydantic import ValidationError

logger = logging.getLogger(__name__)

_MOST_AVOIDED = 4
"""A job that has failed with so many numbers of workers is not rescaled any more."""


@dataclass(frozen=True, slots=True)
class DesiredSpec:
    """The valid part of a job: what its user asks for."""

    spec: TrainingJobSpec
    demand: Demand
    template_hash: str
    """Of ``spec.workers`` workers."""

    fewest_template_hash: str
    """Of ``spec.minWorkers`` workers: there the cost of rescales is kept. Empty for a job that is not elastic."""

    reserved: str
    """What the template sets although it is reserved, as a sentence; empty where it sets nothing of the kind."""

    cpus: RequestedCPUs | None
    """What each worker's trainer asks for; None where its CPUs are never changed."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One TrainingJob as the cluster has it."""

    key: str
    """``namespace/name``."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    generation: int
    created_seconds: float
    deleting: bool
    desired: DesiredSpec | None
    """None: the spec is wrong, see ``problem``."""

    problem: str
    """What is wrong with the spec, as a sentence; empty where nothing is."""

    status: TrainingJobStatus
    malformed_status: bool = False
    """Somebody else wrote a status that cannot be read: nothing is known of the job's past, so nothing is written over it."""

    wrong_summary: bool = False
    """Somebody else wrote ``status.state`` or ``status.reason``: they are not what the conditions say, and are to be written again."""

    ttl_seconds_after_finished: int | None = None
    """How long after its end the job is deleted; None: never. Known even where the rest of the spec is wrong."""

    settled: bool = False
    """Whether it ended long ago. Then spec and status hold only what is still needed: how and when it ended."""

    managed: bool = True
    """Whether this operator runs the job. Another controller runs it otherwise (``spec.managedBy``), and the job is left alone."""

    @property
    def finished(self) -> bool:
        """Whether it succeeded or failed for good."""
        conditions = self.status.conditions
        return is_true(conditions, ConditionType.COMPLETE) or is_true(conditions, ConditionType.FAILED)

    @property
    def ended_seconds(self) -> float | None:
        """When the operator saw its end; None: it has not ended."""
        for each in self.status.conditions:
            if each.type in (ConditionType.COMPLETE, ConditionType.FAILED) and each.status == "True":
                return parse_time(each.last_transition_time)
        return None

    @property
    def placed(self) -> bool:
        """Whether its current attempt has its GPUs, or is about to take them."""
        return is_true(self.status.conditions, ConditionType.PLACED)

    @property
    def running(self) -> bool:
        """Whether all workers of its current attempt were seen to run."""
        return is_true(self.status.conditions, ConditionType.RUNNING)

    @property
    def attempt_workers(self) -> int:
        """The number of workers of its last attempt. Its spec must be valid."""
        assert self.desired is not None
        spec = self.desired.spec
        workers = self.status.attempt_workers or len(self.status.placement)
        if not self.status.placement and 0 < workers <= MAX_WORKERS:
            return workers  # its range may have changed since
        if spec.min_workers is None or spec.max_workers is None or not workers:
            return spec.workers
        # A status that somebody else wrote may have any number; such an attempt is rolled back.
        return workers if spec.min_workers <= workers <= spec.max_workers else spec.workers

    @property
    def working_workers(self) -> int | None:
        """The number of workers with which it ran last for a while; None: unknown, or it has failed with it since. Its spec must be valid."""
        assert self.desired is not None
        spec, workers = self.desired.spec, self.status.working_workers
        if spec.min_workers is None or spec.max_workers is None or workers in self.status.avoided_workers:
            return None
        return workers if spec.min_workers <= workers <= spec.max_workers else None

    @property
    def keeps_workers(self) -> bool:
        """Whether it is to have the number of workers that has worked, whatever its spec or an elastic policy says: its last attempt failed
        with another one, or attempts with too many others did. Its spec must be valid."""
        avoided = self.status.avoided_workers
        if self.working_workers is None:
            return False
        return self.status.attempt_workers in avoided or len(avoided) >= _MOST_AVOIDED

    @property
    def next_workers(self) -> int:
        """The number of workers of its next attempt, unless an elastic policy chooses another one. Its spec must be valid."""
        assert self.desired is not None
        workers = self.desired.spec.workers
        if self.keeps_workers or workers in self.status.avoided_workers:
            return self.working_workers or workers
        return workers

    @property
    def template_hash(self) -> str:
        """The template of its current attempt, or else of the next one. Its spec must be valid."""
        assert self.desired is not None
        spec = self.desired.spec
        workers = self.attempt_workers if self.status.placement else self.next_workers
        return (
            self.desired.template_hash
            if workers == spec.workers
            else template_hash(spec.with_workers(workers))
        )

    def without_details(self) -> JobRecord:
        """Return this ended job without what is no longer needed of it: a cluster keeps many of them."""
        end = ConditionType.COMPLETE
        if not is_true(self.status.conditions, end):
            end = ConditionType.FAILED
        completed, seen_seconds = self.status.completion_time, self.ended_seconds
        if completed is not None and seen_seconds is not None and parse_time(completed) < seen_seconds:
            completed = format_time(seen_seconds)  # the conditions no longer say when
        status = TrainingJobStatus(conditions=_ended_by(end), completion_time=completed)
        return replace(
            self, namespace=sys.intern(self.namespace), settled=True, desired=None, problem="", status=status
        )

    def with_status(self, status: TrainingJobStatus) -> JobRecord:
        """Return this job with another status."""
        return replace(self, status=status)


def parse_job(raw: dict[str, Any], before: JobRecord | None = None) -> JobRecord:
    """Read a TrainingJob. A wrong spec or status is noted in ``problem``, never raised: one bad object stops nothing.

    Args:
        raw: as the API server has it.
        before: an earlier version of the same object. The spec is the same while its generation is, and is not read again then.
    """
    metadata = raw["metadata"]
    namespace, name = metadata["namespace"], metadata["name"]
    key = f"{namespace}/{name}"
    generation = metadata.get("generation", 1)
    known = before is not None and before.generation == generation
    if before is not None and known and not before.malformed_status and not before.settled:
        desired, problem = before.desired, before.problem
    else:
        desired, problem = _desired(raw.get("spec"))
    status, malformed_status = _status(raw.get("status"))
    managed = _managed(raw.get("spec"))
    if not managed:
        desired, problem = None, ""
    if malformed_status:
        desired, problem = None, malformed_status
        logger.warning(
            "a job's status cannot be read; the job is left alone",
            extra={"job": key, "problem": malformed_status},
        )
    return JobRecord(
        key=key,
        namespace=namespace,
        name=name,
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=generation,
        created_seconds=parse_time(metadata["creationTimestamp"]),
        deleting="deletionTimestamp" in metadata,
        desired=desired,
        problem=problem,
        status=status,
        malformed_status=bool(malformed_status),
        wrong_summary=managed and _wrong_summary(raw.get("status"), status),
        ttl_seconds_after_finished=_ttl_seconds(raw.get("spec")),
        managed=managed,
    )


@cache
def _ended_by(end: ConditionType) -> tuple[Condition, ...]:
    """Return the conditions that all settled jobs with this end share."""
    time = format_time(0.0)
    return (Condition(type=end, status="True", reason=end, message="", last_transition_time=time),)


def _managed(spec: object) -> bool:
    # Asked before the spec is read: another controller's spec need not make sense here.
    return not isinstance(spec, dict) or spec.get("managedBy") in (None, "", OPERATOR_MANAGER)


def _status(raw: object) -> tuple[TrainingJobStatus, str]:
    """Return the status, and what is wrong with it as a sentence."""
    try:
        return TrainingJobStatus.model_validate(raw or {}), ""
    except ValidationError as error:
        return TrainingJobStatus(), explain(error, "status")


def _wrong_summary(raw: object, status: TrainingJobStatus) -> bool:
    if not isinstance(raw, dict) or not status.conditions:
        return False  # nothing is known of the job yet, or the status cannot be read
    return (raw.get("state"), raw.get("reason")) != (status.state, status.reason)


def _ttl_seconds(spec: object) -> int | None:
    seconds = spec.get("ttlSecondsAfterFinished") if isinstance(spec, dict) else None
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 <= seconds <= MAX_SECONDS:
        return None
    return seconds


def _desired(spec: object) -> tuple[DesiredSpec | None, str]:
    try:
        parsed = TrainingJobSpec.model_validate(spec)
        check_template(parsed.template)
        _check_priority_classes(parsed)
        trainer = trainer_of(parsed.template["spec"]["containers"])
        reserved = template_problem(parsed.template) or mounts_problem(trainer)
        cpus = requested_cpus(parsed, trainer)
        fewest = "" if parsed.min_workers is None else template_hash(parsed.with_workers(parsed.min_workers))
        return DesiredSpec(parsed, demand_of(parsed), template_hash(parsed), fewest, reserved, cpus), ""
    except ValidationError as error:
        return None, explain(error, "spec")
    except ValueError as error:
        return None, f"spec: {error}"


def _check_priority_classes(spec: TrainingJobSpec) -> None:
    """Refuse two priority classes that differ; an object that was stored before the CRD's rule existed may have them."""
    name, templates = spec.priority_class_name, spec.template["spec"].get("priorityClassName")
    if name and templates and name != templates:
        raise ValueError(
            f"priorityClassName is {name!r} and template.spec.priorityClassName is {templates!r}: set only one of them"
        )


def preemptible(spec: TrainingJobSpec) -> bool:
    """Whether the job may be made to wait again once it runs."""
    return spec.preemption.mode != PreemptionMode.NEVER
