"""A TrainingProfile: what the jobs of one template have shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from laneway.api.training_profile import TrainingProfileStatus


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """One TrainingProfile as the cluster has it."""

    namespace: str
    name: str
    """The template's hash."""

    uid: str
    status: TrainingProfileStatus
    resource_version: str = field(default="", compare=False)
    """The first resource version at which the object matched this record."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def parse_profile(raw: dict[str, Any]) -> ProfileRecord:
    """Read a TrainingProfile.

    Raises:
        ValueError, KeyError: somebody else wrote it, and it cannot be read. It counts as missing, and is written again.
    """
    metadata = raw["metadata"]
    return ProfileRecord(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        status=TrainingProfileStatus.model_validate(raw.get("status") or {}),
        resource_version=metadata.get("resourceVersion", ""),
    )
