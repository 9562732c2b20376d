"""The spec of a TrainingJob: what its user asks for."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from laneway.api import quantity
from laneway.api.names import GPU_PERCENT, MINIMUM_ENFORCEMENT_ANNOTATION, OPERATOR_MANAGER
from laneway.api.pod_requests import amounts
from laneway.api.pod_template import MAX_GRACE_PERIOD_SECONDS
from laneway.api.schema import Spec, rules
from pydantic import ConfigDict, Field, field_validator

MAX_WORKERS = 1024
MAX_NAME_LENGTH = 57
"""A pod's name is ``<job>-<rank>`` and is a host name too, which DNS limits to 63 characters."""

DEFAULT_GRACE_PERIOD_SECONDS = 30
"""As of a pod of Kubernetes."""

DEFAULT_MAX_SLOWDOWN_PERCENT = 20
"""Of a job that states no bound."""

_GRACE = "?preemption.?gracePeriodSeconds"
_TEMPLATES_GRACE = "template.spec.?terminationGracePeriodSeconds"
"""Both in CEL, as optional values."""

MAX_SECONDS = 2**31 - 1


class Sharing(StrEnum):
    """Whether other jobs may use a worker's GPU."""

    LANES = "Lanes"
    EXCLUSIVE = "Exclusive"


class PlacementMode(StrEnum):
    """How a gang is spread over the nodes."""

    AUTO = "Auto"
    CONSOLIDATE = "Consolidate"
    SPREAD = "Spread"


class PreemptionMode(StrEnum):
    """Whether the job may be preempted once it runs."""

    AUTO = "Auto"
    NEVER = "Never"


class FitMode(StrEnum):
    """What the client does when an iteration needs more memory than the worker's share."""

    AUTO = "Auto"
    OFFLOAD = "Offload"
    RECOMPUTE = "Recompute"
    OFF = "Off"


class GPURequestType(StrEnum):
    """How a job states the amount of GPU that each worker gets."""

    SHARE = "Share"
    COUNT = "Count"
    MEMORY = "Memory"


def _member(field: str, kind: GPURequestType) -> tuple[str, str]:
    """Return the CEL rule of one member of the union of a GPURequest."""
    return (
        f"(self.type == '{kind}') == has(self.{field})",
        f"{field} is required when type is {kind}, and forbidden otherwise",
    )


class GPURequest(Spec):
    """The GPUs that each worker gets: a share of one GPU, a number of whole GPUs, or an amount of memory of one GPU."""

    type: GPURequestType = Field(
        description="How the amount is stated. Share: set sharePercent. Count: set count. Memory: set memory."
    )
    share_percent: int | None = Field(
        default=None,
        description="Share of one GPU for each worker, in percent of its memory and its time. For more than one GPU use count.",
        ge=1,
        le=100,
    )
    count: int | None = Field(
        default=None,
        description="Whole GPUs of one node for each worker. For more GPUs than a node has, use more workers.",
        ge=1,
        le=16,
    )
    memory: str | None = Field(
        default=None,
        description="Memory of one GPU for each worker, as a quantity such as 8Gi. The worker gets the smallest share that holds it.",
        json_schema_extra={"maxLength": 32},
    )
    models: tuple[str, ...] = Field(
        default=(),
        description="GPU models that the job accepts, as the nodes report them. An entry is a full name or a pattern in which * stands "
        "for any characters, such as 'NVIDIA A100*'. Empty: any model.",
        max_length=16,
        json_schema_extra={
            "items": {"type": "string", "minLength": 1, "maxLength": 128},
            "x-kubernetes-list-type": "set",
        },
    )

    model_config = ConfigDict(
        json_schema_extra=rules(
            _member("sharePercent", GPURequestType.SHARE),
            _member("count", GPURequestType.COUNT),
            _member("memory", GPURequestType.MEMORY),
            (
                "!has(self.memory) || (!self.memory.matches('^[+]|[eE]([+-]?[0-9]{3}|-(19|[2-9][0-9]))') && isQuantity(self.memory) "
                "&& quantity(self.memory).isGreaterThan(quantity('0')) && quantity(self.memory).isLessThan(quantity('1Pi')))",
                "memory must be a quantity between zero and 1Pi, such as 512Mi or 8Gi",
            ),
        )
    )

    @property
    def memory_bytes(self) -> int | None:
        """The requested memory; None where the request is no amount of memory."""
        return None if self.memory is None else quantity.parse_bytes(self.memory)


class Preemption(Spec):
    """How the job is preempted when another job needs its GPUs."""

    mode: PreemptionMode = Field(
        default=PreemptionMode.AUTO,
        description="Auto: the scheduler picks the cheapest action that frees enough: pause, offload or evict. "
        "Never: once the job runs, it keeps its GPUs until it ends.",
        validate_default=True,
    )
    grace_period_seconds: int | None = Field(
        default=None,
        description="Time between SIGTERM and SIGKILL, in which the script can save a checkpoint. "
        f"Default: template.spec.terminationGracePeriodSeconds, else {DEFAULT_GRACE_PERIOD_SECONDS}.",
        ge=0,
        le=MAX_GRACE_PERIOD_SECONDS,
    )


class TrainingJobSpec(Spec):
    """What the user asks for."""

    workers: int = Field(
        default=1,
        description="Number of workers. They form a gang: all of them run, or none. It can be changed where minWorkers and maxWorkers are set: "
        "the job then saves a checkpoint, stops, and starts again with the new number. If the operator has an elastic policy, the policy chooses "
        "the number of such a job, and this field is not used.",
        ge=1,
        le=MAX_WORKERS,
    )
    min_workers: int | None = Field(
        default=None,
        description="Fewest workers with which the job can run; needs maxWorkers. The two can be set and changed while the job is suspended "
        "and has no workers. Without them, workers is immutable.",
        ge=1,
        le=MAX_WORKERS,
    )
    max_workers: int | None = Field(
        default=None,
        description="Most workers that the job can use; needs minWorkers.",
        ge=1,
        le=MAX_WORKERS,
    )
    gpus: GPURequest = Field(description="GPUs that each worker gets.")
    sharing: Sharing = Field(
        default=Sharing.LANES,
        description="Lanes: other jobs may use the same GPU. Exclusive: the job has its GPUs alone; needs gpus.type Count.",
        validate_default=True,
    )
    max_slowdown_percent: int | None = Field(
        default=None,
        description="Largest slowdown that other jobs on its GPUs may cause beyond its share, in percent. With a share of s percent of a GPU, the job is "
        "entitled to s percent of its speed alone there; with 20 it keeps at least 80 percent of that. If it is measured to get less, a job "
        "that may be preempted leaves: of the lowest priority class there, the one that joined last. If that is the slow job itself, it stays until "
        "other GPUs are free. Jobs whose shares add up to at most 100 percent are never separated. 0: no job joins it. It may be changed while "
        f"the job runs, and counts from the next measurement on. Default: {DEFAULT_MAX_SLOWDOWN_PERCENT}. Only with sharing: Lanes.",
        ge=0,
        le=100,
    )
    placement: PlacementMode = Field(
        default=PlacementMode.AUTO,
        description="Auto: the operator's placement policy decides. Consolidate: as few nodes as possible; the job waits "
        "for these, and prefers those of one rack, then of one zone. "
        "Spread: one node for each worker where possible.",
        validate_default=True,
    )
    preemption: Preemption = Field(
        default=Preemption(), description="How the job is preempted when another job needs its GPUs."
    )
    priority_class_name: str | None = Field(
        default=None,
        description="PriorityClass of the job and its pods; a higher value is scheduled first. "
        "Default: template.spec.priorityClassName. If both are set, they must be equal.",
        json_schema_extra={"maxLength": 253},
    )
    minimum_enforcement: Literal["Cooperative", "Watchdog", "Interposer", "MPS"] | None = Field(
        default=None,
        description="Weakest enforcement level of a GPU on which a worker may start. Default: any. "
        "The job waits for GPUs with this level or a stronger one.",
    )
    minimum_cpu: int | str | None = Field(
        default=None,
        alias="minimumCPU",
        description="Fewest CPUs that the operator's allocation policy may give the trainer container, as a quantity such as 2 or 500m. "
        "Default: what the container requests.",
        json_schema_extra={
            "maxLength": 32,
            **rules(
                (
                    "isQuantity(string(self)) && quantity(string(self)).isGreaterThan(quantity('0'))",
                    "minimumCPU must be a number of CPUs above zero, such as 2, 1.5 or 500m",
                )
            ),
        },
    )
    memory_fit: FitMode = Field(
        default=FitMode.AUTO,
        description="What happens when an iteration needs more memory than the share. Auto: activations are offloaded to host memory or "
        "recomputed, whichever is cheaper, only when needed. Offload, Recompute: always the one or the other. Off: nothing.",
        validate_default=True,
    )
    suspend: bool = Field(
        default=False,
        description="true: the job does not run. A running job has its grace period to save a checkpoint, and stops. false: it is scheduled again.",
    )
    backoff_limit: int = Field(
        default=3,
        description="Number of restarts of the gang after worker failures before the job fails.",
        ge=0,
        le=1000,
    )
    active_deadline_seconds: int | None = Field(
        default=None,
        description="The job fails after it has run for this time; waiting time does not count. Default: no limit.",
        ge=1,
        le=MAX_SECONDS,
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        description="The job is deleted this time after it completed or failed. Default: the operator's endedJobSeconds.",
        ge=0,
        le=MAX_SECONDS,
    )
    queue_name: str | None = Field(
        default=None,
        description="Reserved for the queues of a later version. Must be empty.",
        json_schema_extra={
            "maxLength": 253,
            **rules(("self == ''", "queueName is reserved for a later version: leave it out")),
        },
    )
    managed_by: str | None = Field(
        default=None,
        description=f"Controller that runs the job; immutable. Default: {OPERATOR_MANAGER}. "
        "The Laneway operator ignores a job with any other value.",
        json_schema_extra={"maxLength": 63},
    )
    template: dict[str, Any] = Field(
        description="Pod of each worker. The container named trainer, else the first one, gets the GPU. "
        "Laneway adds the node, the host name, the share of the GPU and the rendezvous environment.",
    )

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.sharing != 'Exclusive' || self.gpus.type == 'Count'",
                "sharing: Exclusive needs whole GPUs: set gpus.type to Count, or use sharing: Lanes for a part of a GPU",
            ),
            (
                "!has(self.maxSlowdownPercent) || self.sharing != 'Exclusive'",
                "maxSlowdownPercent needs sharing: Lanes: leave it out, or let the job share GPUs",
            ),
            (
                "!has(self.priorityClassName) || self.priorityClassName == '' || "
                "self.template.spec.?priorityClassName.orValue('') == '' || "
                "self.priorityClassName == self.template.spec.priorityClassName",
                "priorityClassName and template.spec.priorityClassName differ: set only one of them",
            ),
            (
                f"!self.{_GRACE}.hasValue() || !self.{_TEMPLATES_GRACE}.hasValue() || self.{_GRACE} == self.{_TEMPLATES_GRACE} || "
                # Earlier versions filled in 30 beside the template's; such a job can still be changed otherwise.
                f"(oldSelf.hasValue() && oldSelf.value().{_GRACE} == self.{_GRACE} "
                f"&& oldSelf.value().{_TEMPLATES_GRACE} == self.{_TEMPLATES_GRACE})",
                "preemption.gracePeriodSeconds and template.spec.terminationGracePeriodSeconds differ: "
                "set only one of them, or both to the same number",
            ),
            (
                "has(self.minWorkers) == has(self.maxWorkers)",
                "minWorkers and maxWorkers belong together: set both, or neither",
            ),
            (
                "!has(self.minWorkers) || !has(self.maxWorkers) || "
                "(self.minWorkers <= self.workers && self.workers <= self.maxWorkers)",
                "workers is not between minWorkers and maxWorkers: write minWorkers <= workers <= maxWorkers",
            ),
            (
                "self.workers == oldSelf.workers || has(self.minWorkers)",
                "workers can change only where minWorkers and maxWorkers are set: delete the job, and create it again with them",
            ),
            *(
                (
                    f"self.{field} == oldSelf.{field}",
                    f"{field} is immutable: delete the job and create it again",
                )
                for field in ("gpus", "sharing")
            ),
            (
                "(has(self.managedBy) && self.managedBy != '' ? self.managedBy : 'laneway.dev/operator') == "
                "(has(oldSelf.managedBy) && oldSelf.managedBy != '' ? oldSelf.managedBy : 'laneway.dev/operator')",
                "managedBy is immutable: delete the job and create it again",
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
    def minimum_cpu_millis(self) -> int | None:
        """The fewest CPUs of the trainer container, in thousandths; None: what it requests."""
        return None if self.minimum_cpu is None else amounts({"cpu": self.minimum_cpu})["cpu"]

    @property
    def effective_priority_class_name(self) -> str | None:
        """The PriorityClass of the job and its pods: the spec's, else the template's; None where neither names one."""
        return self.priority_class_name or self.template["spec"].get("priorityClassName") or None

    @property
    def effective_grace_period_seconds(self) -> int:
        """The pods' grace period: the spec's, else the template's, else the default."""
        given = (
            self.preemption.grace_period_seconds,
            self.template["spec"].get("terminationGracePeriodSeconds"),
        )
        return next((each for each in given if each is not None), DEFAULT_GRACE_PERIOD_SECONDS)

    @property
    def gpus_per_worker(self) -> int:
        """The number of GPUs that each worker uses."""
        return self.gpus.count or 1

    @property
    def elastic(self) -> bool:
        """Whether the number of workers may change."""
        return self.min_workers is not None and self.max_workers is not None

    def with_workers(self, workers: int) -> TrainingJobSpec:
        """Return the spec of an attempt with a number of workers."""
        return self if workers == self.workers else self.model_copy(update={"workers": workers})

    @property
    def spans_gpus(self) -> bool:
        """Whether the job's workers together use more than one GPU."""
        return self.workers * self.gpus_per_worker > 1
