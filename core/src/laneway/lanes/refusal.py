"""Why a GPU cannot take a tenant, for programs and for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RefusalReason(StrEnum):
    """Why, as one word that programs may rely on."""

    LARGER_THAN_GPU = "LargerThanGPU"
    """It would not fit even if it were alone."""

    HELD_EXCLUSIVELY = "HeldExclusively"
    """Another tenant has the GPU alone."""

    NOT_EMPTY = "NotEmpty"
    """It wants the GPU alone, and others are there."""

    LANE_LIMIT = "LaneLimit"
    """Jobs that span GPUs need a lane each, and the limit leaves none."""

    AWAITING_PROFILE = "AwaitingProfile"
    """Memory lacks, and tenants are there whose whole share counts until they are profiled."""

    INSUFFICIENT_MEMORY = "InsufficientMemory"
    """Memory lacks, however the lanes are merged."""

    PAUSED = "Paused"
    """It is kept out of the lanes by order; whether it would fit was not asked."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a tenant does not fit now."""

    reason: RefusalReason
    message: str
    """The reason as a sentence."""

    lacking_bytes: int = 0
    """How much more memory would do; 0 where memory is not what lacks."""

    blockers: tuple[str, ...] = ()
    """Keys of the tenants whose leaving or profile would help."""
