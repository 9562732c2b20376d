"""Why a job that is to have another number of workers runs on with those that it has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class HoldReason(StrEnum):
    """Why a rescale that a user asks for has to wait, for programs."""

    NO_IDLE_GPUS = "NoIdleGPUs"
    """The new gang does not fit on GPUs that are idle and for this job to take."""
    NO_USABLE_NODES = "NoUsableNodes"
    """The nodes that it may use could not hold the new gang even without other jobs."""
    UNSAVED_WORK = "UnsavedWork"
    """It would lose too much work; it is stopped after its next checkpoint."""
    DOES_NOT_RESUME = "DoesNotResume"
    """It started from the beginning when it was last stopped, and would lose all of its work again."""
    MINIMUM_RUN_TIME = "MinimumRunTime"
    """It was rescaled a short time ago."""
    ANOTHER_RESCALE = "AnotherRescale"
    """Another job is being rescaled."""
    FAILED_BEFORE = "FailedBefore"
    """It failed with the new number of workers, or with several others."""


@dataclass(frozen=True, slots=True)
class HeldRescale:
    """A rescale that has to wait."""

    reason: HoldReason
    message: str
    """What the job has, and when it is rescaled, as sentences."""
