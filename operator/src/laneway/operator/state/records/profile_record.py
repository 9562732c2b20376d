"""A TrainingProfile: what the jobs of one template have shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laneway.api.records import explain
from laneway.api.training_profile import TrainingProfileStatus
from pydantic import ValidationError


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """One TrainingProfile as the cluster has it."""

    namespace: str
    name: str
    """The template's hash."""

    uid: str
    status: TrainingProfileStatus
    problem: str = ""
    """What is wrong with the object, as a sentence. It then says nothing, and is deleted, so that it can be made again: an apply
    would keep what somebody else wrote. Empty where nothing is."""

    resource_version: str = field(default="", compare=False)
    """The first resource version at which the object matched this record."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def parse_profile(raw: dict[str, Any]) -> ProfileRecord:
    """Read a TrainingProfile. What somebody else wrote wrongly is noted in ``problem``, never raised."""
    metadata = raw["metadata"]
    try:
        status, problem = TrainingProfileStatus.model_validate(raw.get("status") or {}), ""
    except ValidationError as error:
        status, problem = TrainingProfileStatus(), explain(error, "status")
    return ProfileRecord(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        status=status,
        problem=problem,
        resource_version=metadata.get("resourceVersion", ""),
    )
