"""What is known of a job before it runs, because another of the same template ran: from the operator to the node's agent.

A template is what a worker runs and what it gets of GPUs (``laneway.dev/template-hash``, docs/reporting.md).
"""

from __future__ import annotations

from laneway.api.records import Record
from pydantic import Field

_MOST_BYTES = 2**63 - 1
MOST_SECONDS = 1e9


class TemplateProfile(Record):
    """One worker's figures on one GPU: the annotation ``laneway.dev/profile``, and ``profile`` in ``container.json``."""

    persistent_bytes: int = Field(
        description="Kept between iterations, the framework's own not counted.", ge=0, le=_MOST_BYTES
    )
    ephemeral_bytes: int = Field(description="Used beyond that inside an iteration.", ge=0, le=_MOST_BYTES)
    framework_bytes: int = Field(
        default=0, description="The framework's own memory, such as a CUDA context.", ge=0, le=_MOST_BYTES
    )
    iteration_seconds: float = Field(
        default=0.0, description="Mean time; 0: not known.", ge=0, le=MOST_SECONDS
    )
    iteration_seconds_spread: float = Field(
        default=0.0, description="Standard deviation of that time.", ge=0, le=MOST_SECONDS
    )
    data_seconds: float = Field(
        default=0.0,
        description="Mean time before an iteration that was no wait for a turn.",
        ge=0,
        le=MOST_SECONDS,
    )
    model_bytes: int = Field(default=0, ge=0, le=_MOST_BYTES)
    largest_tensor_bytes: int = Field(default=0, ge=0, le=_MOST_BYTES)
