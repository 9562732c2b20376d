"""The ended attempts of a TrainingJob: where each ran, why it ended and what that lost."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from laneway.api.schema import Status, Time, or_else
from pydantic import Field

MOST_ATTEMPTS: Final = 10
"""A job's status keeps the latest attempts, because each write of the status carries them."""

MOST_NODES: Final = 8
LONGEST_MESSAGE: Final = 512


class AttemptOutcome(StrEnum):
    """Why an attempt ended. A job that is paused or offloaded is still in its attempt."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    PREEMPTED = "Preempted"
    RESCALED = "Rescaled"
    SUSPENDED = "Suspended"
    DISRUPTED = "Disrupted"
    ROLLED_BACK = "RolledBack"


class AttemptStatus(Status):
    """An attempt that is over."""

    attempt: int = Field(description="Number of the attempt.", ge=1)
    started_at: Time = Field(description="When it was placed.")
    ended_at: Time = Field(description="When its workers ended, or were told to end.")
    workers: int = Field(description="Number of its workers.", ge=0)
    nodes: tuple[str, ...] = Field(
        default=(),
        description=f"Where they were, by name; the first {MOST_NODES} nodes.",
        max_length=MOST_NODES,
    )
    outcome: Annotated[AttemptOutcome, or_else(AttemptOutcome.DISRUPTED)] = Field(
        description="Preempted: evicted for other jobs. Disrupted: the cluster took a worker away. RolledBack: not all workers could start."
    )
    reason: str = Field(
        description="Why, as one CamelCase word: the failed container's, that of the condition Preempted, Complete or Failed, or else that of "
        "Placed=False."
    )
    message: str = Field(
        default="",
        description=f"Why, as a sentence; its first {LONGEST_MESSAGE} characters.",
        max_length=LONGEST_MESSAGE,
    )
    attained_service_gpu_milliseconds: int = Field(
        default=0,
        description="Attained service of the attempt.",
        alias="attainedServiceGPUMilliseconds",
        ge=0,
    )
    lost_service_gpu_milliseconds: int | None = Field(
        default=None,
        description="GPU time of work that no checkpoint held when the attempt ended. A checkpoint saved in the grace period is not seen. "
        "Absent where nothing is known of checkpoints.",
        alias="lostServiceGPUMilliseconds",
        ge=0,
    )
