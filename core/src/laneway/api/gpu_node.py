"""``GPUNode``: what a node says about its GPUs (status, written by that node only), and orders to its pods (spec)."""

from __future__ import annotations

from enum import StrEnum

from laneway.api.conditions import Condition
from laneway.api.enforcement import Enforcement
from laneway.api.orders import PodOrder
from laneway.api.schema import Model, Status
from pydantic import Field


class SessionState(StrEnum):
    """How far a container that holds a share of a GPU has come."""

    ALLOCATED = "Allocated"
    """It holds ids; no client has connected."""
    WAITING = "Waiting"
    """It is connected and has no turn."""
    HOLDING = "Holding"
    """It has its lane's turn."""
    PAUSED = "Paused"
    """By order: its processes have stopped at a boundary, and get no turns. Its persistent memory stays."""
    OFFLOADED = "Offloaded"
    """By order: paused, and its persistent memory is on the host."""
    LOST = "Lost"
    """Its client went away without a goodbye while the container lives."""
    ENDED = "Ended"
    """The container gave its ids back; the last figures stay for a minute."""


class ReportStatus(Status):
    """How far a container's training has come, by the last word of its script."""

    step: int | None = Field(default=None, description="Steps that were done.", ge=0)
    steps: int | None = Field(default=None, description="How many there are in all.", ge=0)
    epoch: int | None = Field(default=None, ge=0)
    loss: str | None = Field(
        default=None, description="A number, NaN, Infinity or -Infinity.", json_schema_extra={"maxLength": 32}
    )
    remaining_seconds: int | None = Field(
        default=None, description="How long the rest would take at the pace of late.", ge=0
    )
    reported_at: str | None = Field(
        default=None, description="When the node heard it.", json_schema_extra={"format": "date-time"}
    )


class SessionStatus(Status):
    """One container's hold on one GPU."""

    key: str = Field(description="The container's key on the node: a hash of its device ids.")
    namespace: str
    pod: str
    pod_uid: str = Field(default="", description="Empty while the node could not learn it.", alias="podUID")
    container: str
    job: str | None = Field(default=None, description="The TrainingJob's name; none for a plain pod.")
    rank: int | None = None
    attempt: int | None = None
    share_percent: int = Field(description="Percent of this GPU.", ge=0)
    quota_bytes: int = Field(description="What the share entitles to of the GPU's memory.", ge=0)
    lane: int | None = Field(default=None, description="The lane it is in; none while it has none.")
    state: SessionState
    enforcement: Enforcement = Field(
        default=Enforcement.NONE,
        description="What holds this container to its quota, the strongest means in force.",
        validate_default=True,
    )
    evicted: str = Field(
        default="",
        description="Why the node last stopped its processes, as one CamelCase word; empty where it did not.",
    )
    profiled: bool = Field(default=False, description="Whether the two figures below were measured.")
    persistent_bytes: int = Field(default=0, ge=0)
    ephemeral_bytes: int = Field(default=0, ge=0)
    framework_bytes: int = Field(
        default=0,
        description="The part of persistentBytes that is the framework's own; a reserve counts until it was measured.",
        ge=0,
    )
    iteration_microseconds: int = Field(default=0, ge=0)
    iteration_spread_microseconds: int = Field(
        default=0, description="Standard deviation of the iteration's time.", ge=0
    )
    data_microseconds: int = Field(
        default=0,
        description="Mean time before an iteration that was no wait for a turn: loading of data, mostly.",
        ge=0,
    )
    model_bytes: int = Field(default=0, ge=0)
    largest_tensor_bytes: int = Field(default=0, ge=0)
    turns: int = Field(default=0, ge=0)
    iterations: int = Field(default=0, ge=0)
    gpu_milliseconds: int = Field(default=0, description="Time inside iterations.", ge=0)
    data_milliseconds: int = Field(
        default=0, description="Time between iterations that was no wait for a turn.", ge=0
    )
    report: ReportStatus | None = Field(
        default=None, description="What its script last reported; none where it reports nothing."
    )
    held_bytes: int = Field(default=0, description="What its processes say they hold of the GPU now.", ge=0)
    offloaded_bytes: int = Field(default=0, description="What they have moved to the host by order.", ge=0)
    message: str = Field(
        default="", description="What is noteworthy, such as why it waits for a lane or lost a turn."
    )


class LaneStatus(Status):
    """A part of the ephemeral region, used by one session at a time."""

    id: int = Field(ge=0)
    ephemeral_bytes: int = Field(description="The lane's size: the largest ephemeral of its sessions.", ge=0)
    sessions: tuple[str, ...] = Field(default=(), description="Keys of the sessions that take turns in it.")


class GPUStatus(Status):
    """One GPU."""

    uuid: str
    index: int = Field(ge=0)
    model: str
    memory_bytes: int = Field(ge=0)
    allocatable_bytes: int = Field(description="Memory less the reserve for frameworks.", ge=0)
    allocatable_percent: int = Field(description="Shares on offer: 100 times the overcommit factor.", ge=0)
    numa_node: int | None = None
    nvlink_peers: tuple[str, ...] = ()
    healthy: bool
    health_reason: str = Field(
        default="", description="Why it is not healthy, or what should be seen to while it is."
    )
    unhealthy_since: str | None = Field(
        default=None,
        description="When its health was lost; none while it is healthy.",
        json_schema_extra={"format": "date-time"},
    )
    simulated: bool = False
    enforcement: Enforcement = Field(
        default=Enforcement.COOPERATIVE,
        description="The strongest level that the node can hold a container on this GPU to.",
        validate_default=True,
    )
    enforcement_reason: str = Field(
        default="", description="Why that is less than the node was asked for; empty where it is not."
    )
    lanes: tuple[LaneStatus, ...] = Field(
        default=(), json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"]}
    )
    sessions: tuple[SessionStatus, ...] = Field(
        default=(), json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]}
    )


MAX_ORDERS = 1024
"""Of one node: more than it can have pods with a share of a GPU."""


class GPUNodeSpec(Model):
    """What is asked of a node. The node reads it, and never writes it."""

    orders: tuple[PodOrder, ...] = Field(
        default=(),
        description="Orders to pods of this node; a pod that is not named runs. Each is written by server-side apply.",
        max_length=MAX_ORDERS,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["podUID"]},
    )


class GPUNodeStatus(Status):
    """What the node's agent sees."""

    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Ready: the agent runs and sees the GPUs.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    observed_at: str | None = Field(
        default=None, description="When the agent last wrote.", json_schema_extra={"format": "date-time"}
    )
    gpu_count: int = Field(default=0, ge=0)
    gpus: tuple[GPUStatus, ...] = Field(
        default=(),
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["uuid"]},
    )
