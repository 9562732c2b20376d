"""What a training script reports of its progress, as both the status of a session and the status of its job hold it."""

from __future__ import annotations

from laneway.api.schema import Status
from pydantic import Field


class TrainingReport(Status):
    """Progress reported by a training script; a field is absent until the script reports it."""

    step: int | None = Field(
        default=None, description="Training steps done, as reported by the training script.", ge=0
    )
    steps: int | None = Field(
        default=None, description="Training steps in total, as reported by the training script.", ge=0
    )
    epoch: int | None = Field(default=None, description="Epoch reported by the training script.", ge=0)
    loss: str | None = Field(
        default=None,
        description="Loss reported by the training script: a number, NaN, Infinity or -Infinity.",
        json_schema_extra={"maxLength": 32},
    )
    remaining_seconds: int | None = Field(
        default=None, description="Estimated time to the end, at the recent pace.", ge=0
    )
