"""``TrainingJob``: what a user asks for, and what the operator says about it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from laneway.api import quantity
from laneway.api.conditions import Condition
from laneway.api.job_standing import AvoidedNodeStatus, NodeFailuresStatus, PreemptionStatus, WaitingStatus
from laneway.api.names import GPU_PERCENT, MINIMUM_ENFORCEMENT_ANNOTATION
from laneway.api.pod_template import POD_TEMPLATE_SCHEMA
from laneway.api.schema import Model, Status, rules
from pydantic import ConfigDict, Field, field_validator

MAX_WORKERS = 1024
MAX_NAME_LENGTH = 57
"""A pod's name is ``<job>-<rank>`` and is a host name too, which DNS limits to 63 characters."""


class Sharing(StrEnum):
    """With whom a worker's GPU may be shared."""

    LANES = "Lanes"
    EXCLUSIVE = "Exclusive"


class PlacementMode(StrEnum):
    """How a gang is laid over the nodes."""

    AUTO = "Auto"
    CONSOLIDATE = "Consolidate"
    SPREAD = "Spread"


class PreemptionMode(StrEnum):
    """Whether the job may be made to wait again once it runs."""

    AUTO = "Auto"
    NEVER = "Never"


class FitMode(StrEnum):
    """What may be done for an iteration whose memory does not fit the worker's share."""

    AUTO = "Auto"
    OFFLOAD = "Offload"
    RECOMPUTE = "Recompute"
    OFF = "Off"


class ConditionType(StrEnum):
    """The conditions of a TrainingJob."""

    ADMITTED = "Admitted"
    PLACED = "Placed"
    RUNNING = "Running"
    PREEMPTED = "Preempted"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class GPURequest(Model):
    """What one worker holds of the cluster's GPUs: whole GPUs, a share of one, or enough of one for so much memory."""

    per_worker: int | None = Field(default=None, description="Whole GPUs for each worker, 1 to 16.")
    share: int | None = Field(
        default=None,
        description="Percent of one GPU for each worker, 1 to 100: of its memory and of its time.",
    )
    memory: str | None = Field(
        default=None,
        description="Memory of one GPU for each worker, such as 8Gi; the share is what holds it on the GPU chosen.",
        json_schema_extra={"maxLength": 32},
    )
    models: tuple[str, ...] = Field(
        default=(),
        description="The GPU models that will do, as the node reports them; none means any.",
        max_length=16,
        json_schema_extra={
            "items": {"type": "string", "minLength": 1, "maxLength": 128},
            "x-kubernetes-list-type": "set",
        },
    )

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(has(self.perWorker) ? 1 : 0) + (has(self.share) ? 1 : 0) + (has(self.memory) ? 1 : 0) == 1",
                "write exactly one of perWorker (whole GPUs for each worker), share (percent of one GPU) "
                "or memory (of one GPU, such as 8Gi)",
            ),
            (
                "!has(self.perWorker) || (self.perWorker >= 1 && self.perWorker <= 16)",
                "perWorker counts whole GPUs of one node: write a number from 1 to 16; "
                "for less than a GPU write share, for more GPUs write more workers",
            ),
            (
                "!has(self.share) || (self.share >= 1 && self.share <= 100)",
                "share is a percentage of one GPU: write a number from 1 to 100; for several GPUs write perWorker",
            ),
            (
                "!has(self.memory) || (isQuantity(self.memory) && quantity(self.memory).isGreaterThan(quantity('0')))",
                "memory is a quantity above zero: write a number with a unit, such as 512Mi or 8Gi",
            ),
        )
    )

    @property
    def memory_bytes(self) -> int | None:
        """The memory asked for, or None."""
        return None if self.memory is None else quantity.parse_bytes(self.memory)


class Preemption(Model):
    """How the job makes way for others."""

    mode: PreemptionMode = Field(
        default=PreemptionMode.AUTO,
        description="Auto: by the cheapest means that serves. Never: once it runs, it keeps its GPUs until it ends.",
        validate_default=True,
    )
    grace_period_seconds: int = Field(
        default=30,
        description="Time between SIGTERM and SIGKILL, for the script to save its checkpoint.",
    )

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.gracePeriodSeconds) || (self.gracePeriodSeconds >= 0 && self.gracePeriodSeconds <= 3600)",
                "gracePeriodSeconds is the time for saving a checkpoint: write a number from 0 to 3600",
            ),
        )
    )


class Memory(Model):
    """How the job lives with the memory of its share."""

    fit: FitMode = Field(
        default=FitMode.AUTO,
        description="What becomes of activations when an iteration does not fit. Auto: they go to the host's memory, or are computed again where "
        "that is cheaper, and only when they have to. Offload, Recompute: the one or the other, from the first iteration on. Off: nothing.",
        validate_default=True,
    )


class TrainingJobSpec(Model):
    """What the user asks for."""

    workers: int = Field(default=1, description="The size of the gang: all workers run, or none.")
    gpus: GPURequest = Field(description="What each worker holds of the cluster's GPUs.")
    sharing: Sharing = Field(
        default=Sharing.LANES,
        description="Lanes: the GPU may serve others beside this job. Exclusive: the job has its GPUs alone.",
        validate_default=True,
    )
    placement: PlacementMode = Field(
        default=PlacementMode.AUTO,
        description="Auto: as the operator's placement policy sees fit. Consolidate: as few nodes as can hold the gang. "
        "Spread: as many nodes as there are workers, where possible.",
        validate_default=True,
    )
    preemption: Preemption = Field(default=Preemption(), description="How the job makes way for others.")
    priority_class_name: str | None = Field(
        default=None,
        description="A PriorityClass of the cluster; jobs of a higher value go first, whatever service they attained.",
        json_schema_extra={"maxLength": 253},
    )
    minimum_enforcement: Literal["cooperative", "watchdog", "mps"] | None = Field(
        default=None,
        description="The weakest means of holding containers to their quotas with which a worker may start; any, when left out. "
        "The job waits for GPUs of nodes that hold to it or to a stronger one.",
    )
    memory: Memory = Field(default=Memory(), description="How the job lives with the memory of its share.")
    suspend: bool = Field(default=False, description="True: do not run; if it runs, checkpoint and stop.")
    backoff_limit: int = Field(
        default=3, description="How many times the gang is started again after a worker failed."
    )
    active_deadline_seconds: int | None = Field(
        default=None, description="The job fails once it has run for so long, waiting not counted."
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None, description="The job is deleted so long after it ended; never, when left out."
    )
    template: dict[str, Any] = Field(
        description="The worker's pod. The container named trainer, else the first, gets the GPU. "
        "Laneway adds the node, the share of the GPU and the rendezvous environment.",
        json_schema_extra=POD_TEMPLATE_SCHEMA,
    )

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"self.workers >= 1 && self.workers <= {MAX_WORKERS}",
                f"workers is the size of the gang: write a number from 1 to {MAX_WORKERS}",
            ),
            (
                "self.sharing != 'Exclusive' || has(self.gpus.perWorker)",
                "sharing: Exclusive holds whole GPUs: write gpus.perWorker, or sharing: Lanes for a part of a GPU",
            ),
            (
                "self.backoffLimit >= 0 && self.backoffLimit <= 1000",
                "backoffLimit counts restarts after failures: write a number from 0 to 1000",
            ),
            (
                "!has(self.activeDeadlineSeconds) || self.activeDeadlineSeconds >= 1",
                "activeDeadlineSeconds is a time to run: write 1 or more, or leave it out for no limit",
            ),
            (
                "!has(self.ttlSecondsAfterFinished) || self.ttlSecondsAfterFinished >= 0",
                "ttlSecondsAfterFinished is a time to keep the ended job: write 0 or more, or leave it out to keep it",
            ),
            (
                "self.workers == oldSelf.workers",
                "workers cannot change once the job is there: delete it and create it anew",
            ),
            (
                "self.gpus == oldSelf.gpus",
                "gpus cannot change once the job is there: delete it and create it anew",
            ),
            (
                "self.sharing == oldSelf.sharing",
                "sharing cannot change once the job is there: delete it and create it anew",
            ),
        )
    )

    @field_validator("template")
    @classmethod
    def _has_containers(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not (value.get("spec") or {}).get("containers"):
            raise ValueError(
                f"template.spec.containers is empty: write at least one container; {GPU_PERCENT} is added to it"
            )
        return value

    @property
    def demanded_enforcement(self) -> str:
        """The level that the job demands: by its own field, else by its template's annotation; empty where it demands none."""
        annotations = (self.template.get("metadata") or {}).get("annotations") or {}
        return self.minimum_enforcement or annotations.get(MINIMUM_ENFORCEMENT_ANNOTATION, "")

    @property
    def spans_gpus(self) -> bool:
        """Whether the job's workers together use more than one GPU."""
        return self.workers * (self.gpus.per_worker or 1) > 1


class WorkerPlacementStatus(Status):
    """Where one worker is."""

    worker: int = Field(description="The worker's rank.", ge=0)
    node: str = Field(description="The node.")
    gpus: tuple[str, ...] = Field(default=(), description="The GPUs' uuids.")
    share_percent: int = Field(description="Percent of each of these GPUs.", ge=0)


class ProfileStatus(Status):
    """What the node measured of one worker's iterations; the largest over the workers."""

    persistent_bytes: int = Field(
        description="Memory kept between iterations: weights, optimizer state.", ge=0
    )
    ephemeral_bytes: int = Field(
        description="Memory used beyond that inside an iteration: activations.", ge=0
    )
    framework_bytes: int = Field(
        default=0, description="The part of persistentBytes that is the framework's own.", ge=0
    )
    iteration_microseconds: int = Field(default=0, description="Mean time of an iteration.", ge=0)
    iteration_spread_microseconds: int = Field(
        default=0, description="Standard deviation of that time.", ge=0
    )
    data_microseconds: int = Field(
        default=0,
        description="Mean time before an iteration that was no wait for a turn: loading of data, mostly.",
        ge=0,
    )
    iterations: int = Field(default=0, description="Iterations that the figures were measured over.", ge=0)
    model_bytes: int = Field(default=0, description="Size of the parameters that are trained.", ge=0)
    largest_tensor_bytes: int = Field(
        default=0, description="Size of its largest parameter; over modelBytes it is Tiresias' skew.", ge=0
    )


class ProgressStatus(Status):
    """How far the training has come: by its script's word where it reports, else by the iterations that its nodes count."""

    iterations: int = Field(
        default=0, description="Iterations of the current attempt; of a gang, its furthest worker's.", ge=0
    )
    step: int | None = Field(
        default=None, description="Steps done, over all attempts where the script counts so.", ge=0
    )
    steps: int | None = Field(default=None, description="How many there are in all.", ge=0)
    percent: int | None = Field(default=None, description="step of steps.", ge=0)
    epoch: int | None = Field(default=None, ge=0)
    loss: str | None = Field(
        default=None,
        description="As last reported: a number, NaN, Infinity or -Infinity.",
        json_schema_extra={"maxLength": 32},
    )
    remaining_seconds: int | None = Field(
        default=None, description="How long the rest would take from updatedAt on, at the pace of late.", ge=0
    )
    updated_at: str | None = Field(
        default=None,
        description="Of when this is: the last report, else the last change that was seen.",
        json_schema_extra={"format": "date-time"},
    )


class TrainingJobStatus(Status):
    """What the operator says about the job; only it writes here."""

    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Admitted, Placed, Running, Preempted, Succeeded, Failed.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    observed_generation: int | None = Field(
        default=None, description="The generation of the spec acted upon."
    )
    attained_service: str = Field(
        default="0", description="GPU-seconds that the job has had, counted up to serviceCountedAt."
    )
    executed: str = Field(
        default="0", description="Seconds that the job has run, counted up to serviceCountedAt."
    )
    service_counted_at: str | None = Field(
        default=None,
        description="Up to when service was counted; while the job runs it goes on from here.",
        json_schema_extra={"format": "date-time"},
    )
    service_at_promotion: str = Field(
        default="0",
        description="GPU-seconds attained when it was last promoted to the first queue for having waited long; "
        "the queue counts from here (Tiresias, the promotion knob).",
    )
    queue: int = Field(
        default=0, description="The queue of the order policy that the job is in, 0 is the first."
    )
    attempt: int = Field(default=0, description="How many times the gang was started.")
    placement: tuple[WorkerPlacementStatus, ...] = Field(
        default=(),
        description="Where the workers are, or are about to be.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["worker"]},
    )
    profile: ProfileStatus | None = Field(default=None, description="What was measured of its iterations.")
    progress: ProgressStatus | None = Field(default=None, description="How far its training has come.")
    turns: int = Field(default=0, description="Turns that its workers took in their lanes.", ge=0)
    turns_before_attempt: int = Field(
        default=0, description="The part of turns that was taken before the current attempt.", ge=0
    )
    preemptions: int = Field(default=0, description="How many times it made way for others.", ge=0)
    restarts: int = Field(default=0, description="How many times it was started again after a failure.", ge=0)
    preemption: PreemptionStatus | None = Field(
        default=None, description="While it makes way for another job: for which, and how."
    )
    last_preemption: PreemptionStatus | None = Field(
        default=None,
        description="How it made way the last time that is over; kept when it is placed again or goes on, and after its end.",
    )
    waiting: WaitingStatus | None = Field(
        default=None, description="While it waits or starts: why it does not run."
    )
    avoid: tuple[AvoidedNodeStatus, ...] = Field(
        default=(),
        description="Nodes that it is not placed on for a while, because its workers could not start there, or failed again and again.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["node"]},
    )
    failures: tuple[NodeFailuresStatus, ...] = Field(
        default=(),
        description="Where its workers failed lately.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["node"]},
    )
    unstarted_attempts: int | None = Field(
        default=None,
        description="Attempts in a row, up to the last, that ended before all workers ran: rolled back, or their pods taken away. "
        "From the second on it waits before the next. Left out once all workers run.",
        ge=1,
    )
    start_time: str | None = Field(
        default=None, description="When it first ran.", json_schema_extra={"format": "date-time"}
    )
    completion_time: str | None = Field(
        default=None, description="When it ended.", json_schema_extra={"format": "date-time"}
    )
