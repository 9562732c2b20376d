"""What is known of a training's batch and goodput: the client reports the batch, and the operator what follows from it."""

from __future__ import annotations

from laneway.api.schema import WRITTEN_AS_A_WHOLE, Status
from pydantic import Field

MAX_OBSERVATIONS = 32
"""Layouts of a job that are kept, those seen last. Seven parameters are fitted to them."""


class BatchStatus(Status):
    """Batch of a training, in samples."""

    ranks: int = Field(description="Processes that average their gradients.", ge=1)
    local_batch: int = Field(description="Samples of one process in one backward pass.", ge=1)
    passes: int = Field(default=1, description="Backward passes whose gradients make one step.", ge=1)
    initial_batch: int = Field(
        description="Samples of a step of all processes, for which the script chose its learning rate; the current batch unless the script "
        "says otherwise.",
        ge=1,
    )
    max_batch: int = Field(description="Largest batch of all processes that the script allows.", ge=1)
    max_local_batch: int = Field(
        description="Most samples of one process in one pass that the script allows.", ge=1
    )
    noise_scale: int | None = Field(
        default=None,
        description="Gradient noise scale: beyond this batch, most of a larger one is wasted. Absent until it was measured.",
        ge=0,
    )

    @property
    def batch(self) -> int:
        """The samples of a step of all processes."""
        return self.ranks * self.local_batch * self.passes


class StepObservation(Status):
    """Step time in one layout of the job's workers."""

    nodes: int = Field(description="Nodes that the workers were on.", ge=1)
    workers: int = Field(description="Number of workers.", ge=1)
    local_batch: int = Field(description="Samples of one worker in one backward pass.", ge=1)
    pass_microseconds: int = Field(description="Mean time of a step, divided by its passes.", ge=1)


class GoodputStatus(Status):
    """Goodput of the job (Pollux, OSDI'21): samples per second, each worth what it is worth at the initial batch."""

    batch: BatchStatus = Field(description="Batch of the job's processes.")
    efficiency_percent: int | None = Field(
        default=None,
        description="Training progress per sample, compared with the initial batch. Absent while the noise scale is not known.",
        ge=0,
    )
    milli_samples_per_second: int | None = Field(
        default=None,
        description="Goodput: samples per second times efficiency, in thousandths. Absent while the efficiency is not known.",
        ge=0,
    )
    observations: tuple[StepObservation, ...] = Field(
        default=(),
        description="Step times in the layouts in which the job has run; the elastic policies fit a model to them.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )
