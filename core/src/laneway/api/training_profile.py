"""``TrainingProfile``: what the jobs of one template have shown. It outlives them, and only the operator writes it."""

from __future__ import annotations

from laneway.api.rfc3339 import parse_time
from laneway.api.schema import Status, Time
from laneway.api.training_job_status import ProfileStatus
from pydantic import Field, computed_field


class ModelProfileStatus(Status):
    """What jobs have shown on one GPU model with one image."""

    model: str = Field(description="GPU model.")
    image_ids: tuple[str, ...] = Field(
        default=(),
        description="Digests of the image that ran. When the tag stands for another image, its jobs begin a new profile.",
        alias="imageIDs",
    )
    last_started: Time = Field(description="Start of the newest attempt that counts here; exact to a day.")
    profile: ProfileStatus | None = Field(
        default=None,
        description="Measurements: of memory the most that a job needed, of time the longest measurement.",
    )
    measured_jobs: int = Field(default=0, description="Number of ended jobs that were measured.", ge=0)
    completed_jobs: int = Field(default=0, description="Number of completed jobs.", ge=0)
    mean_run_milliseconds: int = Field(
        default=0, description="Mean running time of the completed jobs.", ge=0
    )


class ServiceCountStatus(Status):
    """Ended jobs whose attained service lies in one range."""

    bin: int = Field(
        description="The range: from 2^(bin/8) GPU-seconds up to that of the next bin. 0: less, too; 320: more, too.",
        ge=0,
        le=320,
    )
    completed_jobs: int = Field(default=0, description="Number of completed jobs.", ge=0)
    stopped_jobs: int = Field(
        default=0, description="Number of jobs that failed, or were deleted before their end.", ge=0
    )


class TrainingProfileStatus(Status):
    """What the jobs of one template have shown."""

    image: str = Field(default="", description="Image of the template, as jobs name it.")
    models: tuple[ModelProfileStatus, ...] = Field(
        default=(),
        description="By GPU model.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["model"]},
    )
    services: tuple[ServiceCountStatus, ...] = Field(
        default=(),
        description="Attained services of ended jobs, on any GPU model; some order policies learn from them.",
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["bin"],
            "maxItems": 321,
        },
    )
    rescale_milliseconds: int | None = Field(
        default=None,
        description="Time without training in a rescale of an elastic job; each further one counts half. Kept in the profile of the template with "
        "minWorkers workers, for rescales from and to any number.",
        ge=0,
    )
    rescaled_at: Time | None = Field(default=None, description="Begin of the last rescale that counts.")
    counted_until: Time | None = Field(
        default=None, description="Jobs that ended up to this time are counted."
    )
    updated_at: Time | None = Field(default=None, description="When the operator last wrote the profile.")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def last_used(self) -> Time | None:
        """Start of the newest attempt; exact to a day."""
        return max((each.last_started for each in self.models), key=parse_time, default=None)
