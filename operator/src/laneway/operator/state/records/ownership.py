"""Whose an object is: by its controller, which Kubernetes' garbage collector goes by, and by the labels that the operator gave it.

The uid decides, never the name, as with Kubernetes' own Job: a job that is created again under the same name is another job. Its
workers have another attempt, other GPUs and another past, so it takes none of the earlier one's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from laneway.api import names


class Claim(Enum):
    """What an object is to a job."""

    OWNED = auto()
    """The job is its controller."""

    ADOPTABLE = auto()
    """It was made for this very job and has lost its owner."""

    LEFT_OVER = auto()
    """It was made for an earlier job of the same name."""

    FOREIGN = auto()
    """Somebody else's."""


def controller_of(metadata: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the owner reference of an object's controller; None where it has none."""
    owners = metadata.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


def claim_of(metadata: Mapping[str, Any], job_name: str, job_uid: str) -> Claim:
    """Return what an object is to the job of this name and uid."""
    controller, labels = controller_of(metadata), metadata.get("labels") or {}
    if controller is not None and controller.get("uid") == job_uid:
        return Claim.OWNED
    made_for = labels.get(names.JOB_UID_LABEL)
    if labels.get(names.JOB_LABEL) != job_name or not made_for:
        return Claim.FOREIGN
    if controller is not None and controller.get("uid") != made_for:
        return Claim.FOREIGN
    return Claim.ADOPTABLE if made_for == job_uid else Claim.LEFT_OVER
