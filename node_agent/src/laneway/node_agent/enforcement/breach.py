"""What a container may hold of a GPU, and whether it holds more: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from laneway.api.container_record import ContainerRecord
from laneway.api.quantity import format_bytes

QUOTA_EXCEEDED = "MemoryQuotaExceeded"
NOT_COVERED = "MemoryNotCovered"


@dataclass(frozen=True, slots=True)
class Claim:
    """One container's claim to one GPU, as it stood when it was looked at."""

    gpu: str
    record: ContainerRecord
    folder: Path
    quota_bytes: int
    session_pids: frozenset[int] = frozenset()
    """Its processes that are connected, or were and live."""

    uncovered: str = ""
    """Why it gets no turns, although it holds memory; empty where it does."""

    @property
    def key(self) -> tuple[str, str]:
        """Return what names it: the GPU's uuid and the container's key."""
        return self.gpu, self.record.key

    @property
    def name(self) -> str:
        """Return the container's name for messages."""
        return f"{self.record.namespace}/{self.record.pod}/{self.record.container}"

    def limit_bytes(self, tolerance_percent: int) -> int:
        """Return what its processes may hold together: the quota, which their frameworks' own memory is part of, and what
        is let pass."""
        return self.quota_bytes * (100 + tolerance_percent) // 100


@dataclass(frozen=True, slots=True)
class Breach:
    """What a container does that it must not go on with."""

    reason: str
    """One CamelCase word."""

    text: str
    """A clause."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a look at a container told."""

    breach: Breach | None
    """What is held against it, by this look or, where this one does not tell, by the last that told."""

    told: bool


def find(
    claim: Claim, process_bytes: Mapping[int, int] | None, tolerance_percent: int, before: Breach | None
) -> Finding:
    """Return what is held against a container.

    Args:
        claim: the container's.
        process_bytes: its processes' memory on the GPU, by pid; None while there is no new reading.
        tolerance_percent: so much over the quota is let pass.
        before: what was held against it at the look before.
    """
    if process_bytes is not None:
        return Finding(breach_of(claim, process_bytes, tolerance_percent), told=True)
    if claim.uncovered:
        return Finding(Breach(NOT_COVERED, claim.uncovered), told=True)
    if before is not None and before.reason == NOT_COVERED:
        return Finding(None, told=True)
    return Finding(before, told=False)


def breach_of(claim: Claim, process_bytes: Mapping[int, int], tolerance_percent: int) -> Breach | None:
    """Return what a container must not go on with; None where it keeps to its limits.

    Args:
        claim: the container's.
        process_bytes: its processes' memory on the GPU, by pid.
        tolerance_percent: so much over the quota is let pass.
    """
    held_bytes = sum(process_bytes.values())
    if held_bytes > claim.limit_bytes(tolerance_percent):
        held, quota = format_bytes(held_bytes), format_bytes(claim.quota_bytes)
        count = "its process holds" if len(process_bytes) == 1 else f"its {len(process_bytes)} processes hold"
        return Breach(
            QUOTA_EXCEEDED,
            f"{count} {held} of the GPU by the device's own account, more than its quota of {quota}",
        )
    if claim.uncovered:
        return Breach(NOT_COVERED, claim.uncovered)
    return None
