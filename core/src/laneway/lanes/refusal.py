"""Why a GPU cannot take a tenant, for programs and for people."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from laneway.api.job_names import Sentence


class RefusalReason(StrEnum):
    """Why, as one word that programs may rely on."""

    LARGER_THAN_GPU = "LargerThanGPU"
    """It would not fit even if it were alone."""

    HELD_EXCLUSIVELY = "HeldExclusively"
    """Another tenant holds the GPU exclusively."""

    NOT_EMPTY = "NotEmpty"
    """It needs the GPU exclusively, and others use it."""

    LANE_LIMIT = "LaneLimit"
    """Jobs that span GPUs need a lane each, and the limit leaves none."""

    AWAITING_PROFILE = "AwaitingProfile"
    """Memory is short, and some tenants count with their full share until they are profiled."""

    INSUFFICIENT_MEMORY = "InsufficientMemory"
    """Memory is short, even if the lanes are merged."""

    PAUSED = "Paused"
    """It is kept out of the lanes by order; its fit was not checked."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a tenant does not fit now."""

    reason: RefusalReason
    message: Sentence
    """The reason as a clause, in which the tenant is "it"."""

    lacking_bytes: int = 0
    """The additional memory that would suffice; 0 where memory is not short."""

    blockers: tuple[str, ...] = ()
    """Keys of the tenants whose end or profile would help."""
