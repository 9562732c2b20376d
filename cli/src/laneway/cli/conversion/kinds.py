"""Chooses the conversion by the kind of an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api.names import API_VERSION
from laneway.cli.conversion.batch_job import JOB_VERSION, from_batch_job, to_batch_job
from laneway.cli.conversion.kubeflow import TRAIN_JOB_VERSION, from_train_job, to_train_job
from laneway.cli.conversion.source import Source

KINDS = {"TrainingJob": API_VERSION, "TrainJob": TRAIN_JOB_VERSION, "Job": JOB_VERSION}
"""The kinds, with their versions."""


class WrongKindError(ValueError):
    """There is no conversion between these kinds."""


@dataclass(frozen=True)
class Converted:
    """The result of a conversion."""

    objects: list[dict[str, Any]]
    notes: list[str]
    """What has no counterpart, and what the result does otherwise; empty if nothing was lost."""


def convert(given: Mapping[str, Any], to: str | None) -> Converted:
    """Convert an object.

    Args:
        given: a TrainingJob, a TrainJob or a Job.
        to: the kind of the result; None: a TrainingJob.

    Raises:
        WrongKindError: the object has another kind, or this one.
        KeyError: it has no container.
    """
    kind, target = str(given.get("kind")), to or "TrainingJob"
    if KINDS.get(kind) != given.get("apiVersion"):
        known = ", ".join(f"{name} of {version}" for name, version in KINDS.items())
        raise WrongKindError(f"it is a {kind} of {given.get('apiVersion')}: convert knows {known}")
    if kind == target:
        raise WrongKindError(f"it is a {kind} already: choose another kind by --to")
    if target != "TrainingJob" and kind != "TrainingJob":
        raise WrongKindError(f"it is a {kind}: convert it into a TrainingJob first")
    source = Source(given)
    source.take("apiVersion")
    source.take("kind")
    objects = {
        ("TrainJob", "TrainingJob"): lambda: [from_train_job(source)],
        ("Job", "TrainingJob"): lambda: [from_batch_job(source)],
        ("TrainingJob", "TrainJob"): lambda: [to_train_job(source)],
        ("TrainingJob", "Job"): lambda: to_batch_job(source),
    }[kind, target]()
    return Converted(objects, source.notes())
