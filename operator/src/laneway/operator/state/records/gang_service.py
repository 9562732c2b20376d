"""The headless Service of a gang, as far as it matters whose it is.

Nothing is decided from Services, so they are not watched: they are listed now and then, and each list is read in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api import names
from laneway.operator.state.records.ownership import Claim, claim_of


@dataclass(frozen=True, slots=True)
class GangService:
    """A Service that the operator made for a gang, and that nobody has deleted."""

    namespace: str
    name: str
    """Which is its job's."""

    uid: str
    job_uid: str
    owned: bool
    """Whether its job is its controller."""


def parse_gang_service(raw: Mapping[str, Any]) -> GangService | None:
    """Read a Service; None where it is somebody else's, whatever its labels, or on its way out already."""
    metadata = raw["metadata"]
    labels = metadata.get("labels") or {}
    job_uid = labels.get(names.JOB_UID_LABEL) or ""
    claim = claim_of(metadata, metadata["name"], job_uid)
    if labels.get(names.JOB_LABEL) != metadata["name"] or not job_uid or claim is Claim.FOREIGN:
        return None
    if "deletionTimestamp" in metadata:
        return None
    return GangService(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        job_uid=job_uid,
        owned=claim is Claim.OWNED,
    )
