"""``node.yaml``: the configuration of a node's two components, the device plugin and the agent."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from laneway.api.gpu_sharing import Sharing, refuse_replaced
from laneway.api.health_config import HealthConfig
from laneway.api.schema import Model
from pydantic import Field, field_validator, model_validator

DeviceStrategy = Literal["cdi", "device-specs", "volume-mounts", "env"]
"""How a GPU reaches a container, the strongest first."""


class TurnConfig(Model):
    """How the sessions of a lane take turns."""

    policy: Literal["fair", "las", "pack", "srtf"] = Field(
        default="fair",
        description="Which session of a lane is next. fair: least service over share; pack: first to arrive; "
        "srtf: shortest remaining time; las: least attained service, in queues.",
    )
    las_thresholds_seconds: tuple[Annotated[int, Field(ge=1, le=31_536_000)], ...] = Field(
        default=(60, 3600),
        min_length=1,
        max_length=8,
        description="las: the service at which a session leaves the first queue, the second, and so on.",
    )
    quantum_milliseconds: int = Field(
        default=100,
        ge=1,
        le=60_000,
        description="About how long a turn lasts while others wait, at least one iteration; fair: the mean, as turns follow shares.",
    )
    timeout_seconds: int = Field(
        default=30,
        ge=1,
        le=3600,
        description="A session that is asked to yield its turn loses it after this time, or after two measured "
        "iterations if that is longer, up to ten times this time. A worker of a job that spans GPUs has longer than any other.",
    )
    first_iteration_seconds: int = Field(
        default=0,
        ge=0,
        le=7200,
        description="The same for a process in its first iteration, which may compile. 0: ten times timeoutSeconds.",
    )
    starvation_seconds: int = Field(
        default=60,
        ge=1,
        le=86_400,
        description="A session that has waited this long gets the next turn under any policy.",
    )

    @field_validator("las_thresholds_seconds")
    @classmethod
    def _rising(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(lower >= upper for lower, upper in pairwise(value)):
            raise ValueError(
                f"the thresholds {list(value)} do not rise: write each larger than the one before"
            )
        return value


class LaneConfig(Model):
    """How the ephemeral region is cut."""

    max_per_gpu: int = Field(
        default=0, ge=0, le=64, description="Most lanes of one GPU; 0: as many as memory holds."
    )
    padding_percent: int = Field(
        default=5, ge=0, le=100, description="Added to measured sizes: allocators fragment (Salus, 5 to 10)."
    )
    framework_mebibytes: int = Field(
        default=300,
        ge=0,
        le=16_384,
        description="Counted for the framework's own memory (a CUDA context) of each process on a real GPU "
        "until it is measured; part of the share (Salus: 300).",
    )


class WatchdogConfig(Model):
    """What happens to a container that holds more of a GPU's memory than its share entitles to."""

    action: Literal["Evict", "Warn"] = Field(
        default="Evict",
        description="Evict: its processes on that GPU are stopped. Warn: only a message; the level is then Cooperative.",
    )
    tolerance_percent: int = Field(
        default=5, ge=0, le=100, description="Tolerated excess over the quota, in percent of the quota."
    )
    grace_seconds: int = Field(
        default=30,
        ge=0,
        le=3600,
        description="Time over the quota, after a warning, before its processes are stopped. Time within the quota restores it, at a twentieth of the pace.",
    )
    kill_seconds: int = Field(default=30, ge=0, le=3600, description="Time between SIGTERM and SIGKILL.")
    foreign_processes: Literal["Stop", "Warn"] = Field(
        default="Stop",
        description="What happens to processes with memory of a GPU in a pod's container that has no share of it. Stop: they are "
        "warned and stopped like a container over its quota. Warn: only a message, for GPUs that another device plugin offers too.",
    )
    compute_without_turn: Literal["Stop", "Warn"] = Field(
        default="Stop",
        description="What happens to a container that computes without a turn while others of its lane want one, where the driver "
        "reports which processes compute. Stop: it is warned and stopped like one over its quota. Warn: only a message, for nodes with "
        "programs that have no client.",
    )


class EnforcementConfig(Model):
    """How containers are held to their quotas."""

    level: Literal["Cooperative", "Watchdog", "Interposer", "MPS"] = Field(
        default="Interposer",
        description="Requested level. If the node cannot enforce it, the next lower level applies and is published.",
    )
    limit_threads: bool = Field(
        default=True,
        description="With MPS: a container's share also limits its GPU threads (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE).",
    )


REPLACED = {"overcommitPercent": "write sharing: lanes to let jobs share GPUs, or leave it out"}
"""Names of older configuration files, with what to write instead."""


class NodeConfig(Model):
    """The whole file."""

    gpu_source: Literal["nvml", "simulated"] = "nvml"
    sharing: Sharing = Field(
        default="lanes",
        description="Whether jobs join others on GPUs. off: a GPU offers 100 percent. lanes: it offers 800, and 400 of them may take turns; "
        "lanes still keep the memory of its jobs within the GPU's.",
    )
    reserve_mebibytes: int = Field(
        default=300,
        ge=0,
        le=16_384,
        description="Kept free on each GPU for the driver and the display; it belongs to no share.",
    )
    device_strategy: Literal["auto", DeviceStrategy] = Field(
        default="auto",
        description="How a GPU reaches a container (docs/node.md). auto: the strongest that the node supports; GPUNode.status says which and why.",
    )
    driver_root: str = Field(
        default="",
        pattern=r"^(/[^/:]+)*$",
        max_length=4096,
        description="Host folder with the driver's libraries, mounted read-only at /usr/local/nvidia, for nodes without NVIDIA's container "
        "runtime (GKE: /home/kubernetes/bin/nvidia). Empty: that runtime adds the libraries.",
    )
    status_interval_seconds: int = Field(
        default=15,
        ge=1,
        le=300,
        description="Shortest time between two writes of the GPUNode for figures alone, such as iterations; four times as long where "
        "they changed by less than a tenth. Other changes are written at once.",
    )
    turns: TurnConfig = TurnConfig()
    lanes: LaneConfig = LaneConfig()
    health: HealthConfig = HealthConfig()
    enforcement: EnforcementConfig = EnforcementConfig()
    watchdog: WatchdogConfig = WatchdogConfig()

    @model_validator(mode="before")
    @classmethod
    def _is_current(cls, values: Any) -> Any:
        return refuse_replaced(values, REPLACED)
