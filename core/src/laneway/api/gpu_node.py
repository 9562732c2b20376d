"""``GPUNode``: the GPUs of one node. The node writes the status; the spec holds orders to pods on the node."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from laneway.api.conditions import Condition
from laneway.api.enforcement import Enforcement
from laneway.api.goodput_status import BatchStatus
from laneway.api.orders import PodOrder
from laneway.api.schema import WRITTEN_AS_A_WHOLE, Spec, Status, Time, or_else
from laneway.api.training_report import TrainingReport
from pydantic import Field


class SessionState(StrEnum):
    """State of a container that holds a share of a GPU."""

    ALLOCATED = "Allocated"
    """It has a share of the GPU; no client has connected."""
    WAITING = "Waiting"
    """Its client is connected and has no turn; with offloadedBytes, its memory is to be restored before it gets one."""
    HOLDING = "Holding"
    """It has its lane's turn."""
    PAUSED = "Paused"
    """By order: its processes stopped at an iteration boundary and get no turns. Its persistent memory stays on the GPU."""
    OFFLOADED = "Offloaded"
    """By order: paused, and its persistent memory is in host memory."""
    LOST = "Lost"
    """Its client disconnected without notice while the container runs."""
    ENDED = "Ended"
    """The container released its share; its last figures stay for a minute."""


class ReportStatus(TrainingReport):
    """Last progress report of a container's training script."""

    reported_at: Time | None = Field(
        default=None,
        description="When the node received the report.",
    )


class SavedWorkStatus(Status):
    """What the client of a container saw of checkpoints."""

    unsaved_since: Time = Field(
        description="When the last complete checkpoint was begun; without one, when the training began."
    )
    checkpointed: bool = Field(default=False, description="Whether unsavedSince is the time of a checkpoint.")
    loaded_from: Time | None = Field(
        default=None,
        description="When the newest checkpoint was written that was loaded before the training began; absent: none was.",
    )
    ended: bool = Field(
        default=False,
        description="Whether the processes that saw this have ended; what they had not saved is lost.",
    )


class SessionStatus(Status):
    """Session of one container on one GPU."""

    key: str = Field(description="Key of the container on the node: a hash of its device ids.")
    namespace: str = Field(description="Namespace of the pod.")
    pod: str = Field(description="Name of the pod.")
    pod_uid: str = Field(
        default="", description="UID of the pod; empty while the node does not know it.", alias="podUID"
    )
    container: str = Field(description="Name of the container.")
    job: str | None = Field(default=None, description="Name of the TrainingJob; absent for a plain pod.")
    rank: int | None = Field(default=None, description="Rank of the worker in its TrainingJob.", ge=0)
    attempt: int | None = Field(default=None, description="Attempt of the TrainingJob.", ge=0)
    share_percent: int = Field(description="Share of this GPU.", ge=0)
    quota_bytes: int = Field(description="GPU memory that belongs to the share.", ge=0)
    lane: int | None = Field(default=None, description="Lane of the session; absent while it has none.", ge=0)
    state: Annotated[SessionState, or_else(SessionState.ALLOCATED)] = Field(
        description="State of the session."
    )
    enforcement: Annotated[Enforcement, or_else(Enforcement.NONE)] = Field(
        default=Enforcement.NONE,
        description="Strongest enforcement level in force for this container.",
        validate_default=True,
    )
    evicted: str = Field(
        default="",
        description="Why the node last stopped the container's processes, as one CamelCase word; empty if it never did.",
    )
    profiled: bool = Field(
        default=False, description="Whether persistentBytes and ephemeralBytes were measured."
    )
    persistent_bytes: int = Field(default=0, description="Memory kept between iterations.", ge=0)
    ephemeral_bytes: int = Field(default=0, description="Memory used beyond that within an iteration.", ge=0)
    framework_bytes: int = Field(
        default=0,
        description="The framework's own part of persistentBytes; an estimate until it was measured.",
        ge=0,
    )
    iteration_microseconds: int = Field(default=0, description="Mean time of an iteration.", ge=0)
    iteration_spread_microseconds: int = Field(
        default=0, description="Standard deviation of the iteration time.", ge=0
    )
    data_microseconds: int = Field(
        default=0,
        description="Mean time before an iteration without waiting for a turn; mostly data loading.",
        ge=0,
    )
    model_bytes: int = Field(default=0, description="Size of the trainable parameters.", ge=0)
    largest_tensor_bytes: int = Field(default=0, description="Size of the largest parameter.", ge=0)
    turns: int = Field(default=0, description="Turns taken.", ge=0)
    iterations: int = Field(default=0, description="Iterations done.", ge=0)
    gpu_milliseconds: int = Field(default=0, description="Time within iterations.", ge=0)
    data_milliseconds: int = Field(
        default=0, description="Time between iterations without waiting for a turn.", ge=0
    )
    report: ReportStatus | None = Field(
        default=None, description="Last report of the training script; absent if there is none."
    )
    saved_work: SavedWorkStatus | None = Field(
        default=None,
        description="What its client saw of checkpoints; absent while nothing trains, and where no client watches.",
    )
    batch: BatchStatus | None = Field(
        default=None, description="Batch of the training; absent until its client knows it."
    )
    held_bytes: int = Field(default=0, description="GPU memory that its processes report to hold now.", ge=0)
    offloaded_bytes: int = Field(
        default=0, description="Memory that they moved to the host by order, until it is restored.", ge=0
    )
    message: str = Field(
        default="", description="Remarks, such as why the session waits for a lane or lost a turn."
    )


class LaneStatus(Status):
    """A lane: a region of ephemeral memory that one session uses at a time."""

    id: int = Field(description="Number of the lane.", ge=0)
    ephemeral_bytes: int = Field(
        description="Size of the lane: the largest ephemeral memory of its sessions.", ge=0
    )
    sessions: tuple[str, ...] = Field(
        default=(), description="Keys of the sessions that take turns in the lane."
    )


class GPUStatus(Status):
    """One GPU."""

    uuid: str = Field(description="UUID of the GPU.")
    index: int = Field(description="Number of the GPU on its node.", ge=0)
    model: str = Field(description="Model, as the driver reports it.")
    memory_bytes: int = Field(description="Memory of the GPU.", ge=0)
    allocatable_bytes: int = Field(description="Memory for jobs: all but the reserve for the driver.", ge=0)
    allocatable_percent: int = Field(
        description="Shares that can be allocated: 100, or more with sharing: lanes.", ge=0
    )
    numa_node: int | None = Field(default=None, description="NUMA node of the GPU, where it is known.", ge=0)
    nvlink_peers: tuple[str, ...] = Field(default=(), description="UUIDs of the GPUs connected by NVLink.")
    healthy: bool = Field(description="Whether workers may start on the GPU.")
    health_reason: str = Field(
        default="", description="Why the GPU is not healthy, or a warning while it is."
    )
    unhealthy_since: Time | None = Field(
        default=None,
        description="When the GPU became unhealthy; absent while it is healthy.",
    )
    simulated: bool = Field(default=False, description="Whether the GPU is simulated.")
    enforcement: Annotated[Enforcement, or_else(Enforcement.NONE)] = Field(
        default=Enforcement.COOPERATIVE,
        description="Strongest enforcement level that the node can apply on this GPU.",
        validate_default=True,
    )
    enforcement_reason: str = Field(
        default="", description="Why the level is weaker than the configured one; empty if it is not."
    )
    move_milliseconds_per_gib: int | None = Field(
        default=None,
        description="Time to offload a GiB of a container's persistent memory and to restore it: the medians of the last moves. "
        "Absent until something was moved.",
        ge=1,
    )
    lanes: tuple[LaneStatus, ...] = Field(
        default=(),
        description="Lanes of the GPU.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]},
    )
    sessions: tuple[SessionStatus, ...] = Field(
        default=(),
        description="Containers that hold a share of the GPU.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]},
    )


def moved_seconds_per_gib(gpu: GPUStatus) -> float | None:
    """Return the time to move a GiB to the host and back; None until it was measured."""
    return None if gpu.move_milliseconds_per_gib is None else gpu.move_milliseconds_per_gib / 1000


MAX_ORDERS = 1024
"""More than the number of pods with a share of a GPU that one node can have."""


class GPUNodeSpec(Spec):
    """Orders to a node. The node reads them and never writes them."""

    orders: tuple[PodOrder, ...] = Field(
        default=(),
        description="Orders to pods of this node; a pod without an order runs. Each writer uses server-side apply.",
        max_length=MAX_ORDERS,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["podUID"]},
    )


class GPUNodeStatus(Status):
    """State of the node's GPUs, as its agent sees it."""

    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Ready: the agent runs and a GPU is healthy. GPUsHealthy: all of them are. "
        "DoublyOffered: another device plugin hands out GPUs of the node, so no new worker starts there.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    observed_at: Time | None = Field(
        default=None,
        description="Time of this report. The agent writes one when something changed; its Lease shows that it is alive.",
    )
    other_pods_requests: dict[str, str] | None = Field(
        default=None,
        description="Sum of what other pods on the node request (not workers of a TrainingJob), as Kubernetes quantities; pods is their "
        "number. Absent while the node does not know its pods.",
    )
    device_strategy: str = Field(
        default="",
        description="How the GPUs reach containers: cdi, device-specs, volume-mounts or env. Empty: they have no device.",
    )
    device_strategy_reason: str = Field(
        default="", description="Why it is this strategy, and why no stronger one."
    )
    gpu_count: int = Field(default=0, description="Number of GPUs.", ge=0)
    gpus: tuple[GPUStatus, ...] = Field(
        default=(),
        description="GPUs of the node. Each write of the status replaces all of them.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )
