"""``container.json``: which container holds which ids, from the device plugin to the agent."""

from __future__ import annotations

from typing import Literal

from laneway.api.records import Record
from laneway.api.template_profile import TemplateProfile
from pydantic import Field


class Launcher(Record):
    """The process on the node that started a job without Kubernetes: it and its descendants are the job's processes."""

    pid: int = Field(gt=0, description="As the agent's own process namespace counts.")
    start_ticks: int = Field(
        ge=0,
        description="When it started, in clock ticks since boot: no later process of that number is meant.",
    )


class ContainerRecord(Record):
    """One container that holds shares of GPUs."""

    version: Literal[1] = 1
    key: str = Field(pattern=r"^[0-9a-f]{16}$")
    namespace: str
    pod: str
    pod_uid: str = ""
    container: str
    device_ids: tuple[str, ...] = Field(min_length=1)
    shares: dict[str, int] = Field(min_length=1, description="Percent of each GPU, by uuid.")
    job: str | None = None
    job_uid: str = ""
    rank: int | None = None
    attempt: int | None = None
    template_hash: str = ""
    spans_gpus: bool = False
    sharing: Literal["Lanes", "Exclusive"] = "Lanes"
    profile: TemplateProfile | None = Field(
        default=None, description="What is known of its template; none: it is measured before it shares."
    )
    minimum_enforcement: str = Field(
        default="", description="The level that the pod demands, as its annotation spells it; empty: any."
    )
    interposer: bool | None = Field(
        default=None,
        description="Whether it was allocated with the memory interposer's preload file; null: unknown.",
    )
    launcher: Launcher | None = Field(
        default=None, description="Who started it where there is no pod; none: its processes are its pod's."
    )
