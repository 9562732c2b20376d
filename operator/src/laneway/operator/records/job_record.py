"""A TrainingJob, with the sentence that says what is wrong where it cannot be read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

from laneway.api import quantity
from laneway.api.clock_text import to_seconds
from laneway.api.conditions import is_true
from laneway.api.records import explain
from laneway.api.training_job import (
    ConditionType,
    PreemptionMode,
    TrainingJobSpec,
    TrainingJobStatus,
)
from laneway.operator.records.template_check import check_template
from laneway.operator.records.template_hash import template_hash
from laneway.scheduling import Demand
from laneway.scheduling.spec_demand import demand_of
from pydantic import ValidationError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wish:
    """The valid part of a job: what its user asks for."""

    spec: TrainingJobSpec
    demand: Demand
    template_hash: str


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
    wish: Wish | None
    """None: the spec is wrong, see ``problem``."""

    problem: str
    """What is wrong with the spec, as a sentence; empty where nothing is."""

    status: TrainingJobStatus
    spoiled: bool = False
    """Somebody else wrote a status that cannot be read: nothing is known of the job's past, so nothing is written over it."""

    @property
    def finished(self) -> bool:
        """Whether it succeeded or failed for good."""
        conditions = self.status.conditions
        return is_true(conditions, ConditionType.SUCCEEDED) or is_true(conditions, ConditionType.FAILED)

    @property
    def placed(self) -> bool:
        """Whether its current attempt has its GPUs, or is about to take them."""
        return is_true(self.status.conditions, ConditionType.PLACED)

    @property
    def running(self) -> bool:
        """Whether all workers of its current attempt were seen to run."""
        return is_true(self.status.conditions, ConditionType.RUNNING)

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
    if before is not None and before.generation == generation and not before.spoiled:
        wish, problem = before.wish, before.problem
    else:
        wish, problem = _wish(raw.get("spec"))
    status, spoiled = _status(raw.get("status"))
    if spoiled:
        wish, problem = None, spoiled
        logger.warning(
            "a job's status cannot be read; the job is left alone", extra={"job": key, "problem": spoiled}
        )
    return JobRecord(
        key=key,
        namespace=namespace,
        name=name,
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        generation=generation,
        created_seconds=to_seconds(metadata["creationTimestamp"]),
        deleting="deletionTimestamp" in metadata,
        wish=wish,
        problem=problem,
        status=status,
        spoiled=bool(spoiled),
    )


def _status(raw: object) -> tuple[TrainingJobStatus, str]:
    """Return the status, and what is wrong with it as a sentence."""
    try:
        status = TrainingJobStatus.model_validate(raw or {})
        for figure in (status.attained_service, status.executed, status.service_at_promotion):
            quantity.parse(figure)
    except ValidationError as error:
        return TrainingJobStatus(), explain(error, "status")
    except ValueError as error:
        return TrainingJobStatus(), f"status: {error}"
    return status, ""


def _wish(spec: object) -> tuple[Wish | None, str]:
    try:
        parsed = TrainingJobSpec.model_validate(spec)
        check_template(parsed.template)
        return Wish(parsed, demand_of(parsed), template_hash(parsed)), ""
    except ValidationError as error:
        return None, explain(error, "spec")
    except ValueError as error:
        return None, f"spec: {error}"


def preemptible(spec: TrainingJobSpec) -> bool:
    """Whether the job may be made to wait again once it runs."""
    return spec.preemption.mode != PreemptionMode.NEVER
