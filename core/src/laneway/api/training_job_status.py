"""The status of a TrainingJob, which only the operator writes: its conditions, where it runs and why it waits."""

from __future__ import annotations

from typing import Annotated, Literal

from laneway.api.attempt_status import MOST_ATTEMPTS, AttemptStatus
from laneway.api.conditions import Condition
from laneway.api.goodput_status import GoodputStatus
from laneway.api.job_conditions import SummaryState, summarize
from laneway.api.schema import WRITTEN_AS_A_WHOLE, Status, Time, or_else
from laneway.api.training_report import TrainingReport
from pydantic import Field, computed_field

MOST_BLOCKERS = 16
"""The most jobs that ``waiting.blockers`` names: thousands of elastic jobs may wait for as many others."""


class ModelSpeedStatus(Status):
    """How fast a job runs on one GPU model."""

    model: str = Field(description="GPU model.")
    percent: int = Field(description="Speed relative to the fastest of these models, in percent.", ge=0)
    basis: Annotated[Literal["Measured", "OtherTemplates", "PeakFigures"], or_else("PeakFigures")] = Field(
        description="Measured: jobs of this template have run on the model. OtherTemplates: an estimate from the ratio between two models that "
        "other templates have shown. PeakFigures: an estimate from the models' data sheets."
    )
    source: str = Field(
        default="", description="Where an estimate comes from, as a clause; empty where it was measured."
    )


class WaitingStatus(Status):
    """Why a job does not run, and what would let it run."""

    reason: str = Field(description="Why the job waits, as one CamelCase word for programs.")
    message: str = Field(description="Why the job waits, as a sentence.")
    unblock: str = Field(default="", description="What has to change for the job to run.")
    position: int = Field(default=0, description="Place among the waiting jobs; 1 is next.", ge=0)
    since: Time | None = Field(default=None, description="When the job began to wait.")
    blockers: tuple[str, ...] = Field(
        default=(),
        description="Jobs of the same namespace that hold the GPUs that this job waits for, where they are known; at most sixteen are named.",
    )
    blockers_elsewhere: int = Field(
        default=0, description="Number of such jobs in other namespaces; they are not named.", ge=0
    )
    ahead: tuple[str, ...] = Field(
        default=(),
        description="Of the next waiting jobs before this one, at most five, those of the same namespace.",
    )
    ahead_elsewhere: int = Field(
        default=0, description="Number of the others of these jobs; they are not named.", ge=0
    )
    estimated_start: Time | None = Field(
        default=None,
        description="Estimate of when the job may start. Running jobs are assumed to take as long as they report, as other jobs of their "
        "template took, or as long again as they have run.",
    )
    estimate_basis: str = Field(default="", description="What the estimate is based on, as a sentence.")
    alternatives: tuple[str, ...] = Field(
        default=(),
        description="Alternative values of the spec; the job would start now with any of them. The scheduler has tried each one.",
    )
    speeds: tuple[ModelSpeedStatus, ...] = Field(
        default=(),
        description="How fast the job runs on the GPU models that it can use, where there are several and something tells their speeds.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )
    estimated_at: Time | None = Field(
        default=None,
        description="When the estimate and the alternatives were computed.",
    )


class AvoidedNodeStatus(Status):
    """A node on which the job is not placed for a while."""

    node: str = Field(description="Name of the node.")
    until: Time = Field(description="When the node may be used again.")
    message: str = Field(default="", description="What went wrong there, as a sentence.")


class RefusedNodeStatus(Status):
    """A node on which kube-scheduler refused a worker."""

    node: str = Field(description="Name of the node.")
    available: dict[str, str] = Field(
        default={},
        description="The node's allocatable resources less the requests of other pods, then, as Kubernetes quantities.",
    )
    pods: tuple[str, ...] = Field(
        default=(), description="Internal: fingerprints of other jobs' workers that were there."
    )


class SchedulerRefusalStatus(Status):
    """The last refusal of workers by kube-scheduler or a kubelet. No job is preempted for this one until that may have changed."""

    generation: int = Field(description="Generation of the refused spec.", ge=0)
    since: Time = Field(description="When they were refused.")
    times: int = Field(
        default=1,
        description="Refusals in a row. After each, no job is preempted for at least twice as long as before.",
        ge=1,
    )
    lifted: bool = Field(
        default=False, description="Whether something has changed, so that it may preempt again."
    )
    nodes: tuple[RefusedNodeStatus, ...] = Field(
        default=(),
        description="Where workers were refused; empty once something has changed.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )


class NodeFailuresStatus(Status):
    """Recent failures of the job's workers on one node."""

    node: str = Field(description="Name of the node.")
    count: int = Field(description="Failures in a row, with less than an hour between two.", ge=1)
    last: Time = Field(description="When the last failure was.")


class PreemptionStatus(Status):
    """One preemption of the job: by which job, with which action, and when it took effect."""

    # Read as Pause, a new action ends as every pause does: the job resumes in place, or is evicted when its nodes do not follow in time.
    action: Annotated[Literal["Pause", "Offload", "Evict"], or_else("Pause")] = Field(
        description="Pause: the job stops between two iterations and keeps its GPU memory. Offload: its GPU memory then moves to the host. "
        "Evict: its pods end, and it starts again from its checkpoint."
    )
    preemptor: str = Field(
        default="",
        description="The job that gets the GPUs, as namespace/name; empty where it is in another namespace.",
    )
    reason: str = Field(
        default="", description="Why, as one CamelCase word: the reason of the condition Preempted."
    )
    message: str = Field(default="", description="Why, as a sentence.")
    cost_milliseconds: int | None = Field(
        default=None,
        description="Expected cost on each GPU of the job, apart from the waiting time. Absent where it is unknown.",
        ge=0,
    )
    since: Time = Field(description="When the job was told to yield.")
    reached_at: Time | None = Field(
        default=None,
        description="When its nodes reported that it was paused or offloaded.",
    )


class RescaleStatus(Status):
    """The last restart of the job with another number of workers."""

    from_workers: int = Field(description="Workers that the job had.", ge=1)
    to_workers: int = Field(
        description="Workers that it was to have; 0: the elastic policy gave it none for a while.", ge=0
    )
    message: str = Field(default="", description="Why, as a sentence.")
    attempt: int = Field(description="Internal: number of the attempt that was stopped.", ge=0)
    since: Time = Field(description="When the workers were told to stop.")
    completed_at: Time | None = Field(
        default=None, description="When all workers of a later attempt ran; absent until then."
    )
    waited_milliseconds: int = Field(
        default=0,
        description="Internal: the job's waitedMilliseconds then. Time in which it waits for GPUs is no cost.",
        ge=0,
    )
    cost_milliseconds: int | None = Field(
        default=None,
        description="Time without training: from the stop to the first turn of the next attempt, or without one to the start of its workers. "
        "Time spent waiting for GPUs does not count. Absent until then, and if that attempt did not start.",
        ge=0,
    )
    trained: bool = Field(
        default=False, description="Internal: whether the cost counts up to the first turn."
    )


class FailedWorkersStatus(Status):
    """A number of workers with which the job failed before it had run for ten minutes."""

    workers: int = Field(description="Number of workers.", ge=1)
    failures: int = Field(description="Failures in a row with this number.", ge=1)
    message: str = Field(default="", description="How it failed last, as a sentence.")
    last: Time = Field(description="When it failed last.")
    avoided: bool = Field(
        default=False,
        description="Whether the job went back to workingWorkers, and is not rescaled to this number again. A suspension ends that.",
    )


class WorkerPlacementStatus(Status):
    """Where one worker runs."""

    worker: int = Field(description="Rank of the worker.", ge=0)
    node: str = Field(description="Name of the node.")
    gpus: tuple[str, ...] = Field(default=(), description="UUIDs of its GPUs.")
    share_percent: int = Field(description="Its share of each of these GPUs.", ge=0)


class CPUStatus(Status):
    """The CPUs of the trainer containers, where the allocation policy has given them others than they request."""

    allocated: str = Field(
        description="CPUs that each worker's container has now, as a quantity; of workers that differ, the fewest."
    )
    requested: str = Field(description="CPUs that it requests by the template.")
    message: str = Field(
        default="", description="Why a kubelet has not changed the CPUs as the policy wants, as a sentence."
    )


class CPUPointStatus(Status):
    """How fast a job iterates with a number of CPUs."""

    cpu_millis: int = Field(description="CPUs of each worker's trainer container, in thousandths.", ge=1)
    iteration_microseconds: int = Field(
        description="Mean time of an iteration with them, waiting for data included.", ge=1
    )


class ProfileStatus(Status):
    """Measurements of one worker's iterations; of a gang the largest over the workers."""

    persistent_bytes: int = Field(
        description="Memory kept between iterations: weights, optimizer state.", ge=0
    )
    ephemeral_bytes: int = Field(
        description="Memory used beyond that within an iteration: activations.", ge=0
    )
    framework_bytes: int = Field(default=0, description="The framework's own part of persistentBytes.", ge=0)
    iteration_microseconds: int = Field(default=0, description="Mean time of an iteration.", ge=0)
    iteration_spread_microseconds: int = Field(
        default=0, description="Standard deviation of the iteration time.", ge=0
    )
    data_microseconds: int = Field(
        default=0,
        description="Mean time before an iteration without waiting for a turn; mostly data loading.",
        ge=0,
    )
    iterations: int = Field(default=0, description="Number of iterations measured.", ge=0)
    model_bytes: int = Field(default=0, description="Size of the trainable parameters.", ge=0)
    largest_tensor_bytes: int = Field(
        default=0,
        description="Size of the largest parameter; divided by modelBytes it is Tiresias' skew.",
        ge=0,
    )
    cpu_points: tuple[CPUPointStatus, ...] = Field(
        default=(),
        description="Speed by CPUs, as far as it was measured; rising.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )


class ExecutionStatus(Status):
    """What an attempt ran: the measurements hold for it."""

    attempt: int = Field(description="Number of the attempt.", ge=0)
    started_at: Time = Field(description="When the attempt was placed.")
    template_hash: str = Field(description="Template of the workers; the name of its TrainingProfile.")
    gpu_models: tuple[str, ...] = Field(default=(), description="Models of the GPUs.")
    image_ids: tuple[str, ...] = Field(
        default=(),
        description="Digests of the trainer's image; several where a tag moved between two pulls.",
        alias="imageIDs",
    )
    profiled: bool = Field(default=False, description="Whether profile was measured in this attempt.")


class ProgressStatus(TrainingReport):
    """Progress of the training: as the script reports it, else as the nodes count iterations."""

    iterations: int = Field(
        default=0,
        description="Iterations of the current attempt; of a gang, those of its furthest worker.",
        ge=0,
    )
    percent: int | None = Field(
        default=None, description="Progress reported by the training script, in percent.", ge=0, le=100
    )
    unsaved_since: Time | None = Field(
        default=None,
        description="Work since this time would be lost by an eviction: when the last checkpoint was begun, or without one in this "
        "attempt, when its training began. Absent where the client does not know, and while the job has no workers.",
    )
    saved_executed_milliseconds: int = Field(
        default=0,
        description="executedMilliseconds at unsavedSince. An eviction would lose what was executed beyond it.",
        ge=0,
    )
    last_checkpoint_time: Time | None = Field(
        default=None,
        description="When the last checkpoint was begun, in any attempt; absent if none was seen.",
    )
    resumes: bool | None = Field(
        default=None,
        description="Whether the last attempt went on from an earlier attempt's checkpoint. false: it started from the beginning. "
        "Absent until an attempt shows it.",
    )
    warning: str = Field(
        default="",
        description="What an eviction would lose and how to change that; empty if it would lose little.",
    )
    updated_at: Time | None = Field(
        default=None,
        description="Time of the last report, else of the last observed change.",
    )


class TrainingJobStatus(Status):
    """State of the job, written by the operator only."""

    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Accepted, Placed, Running, Preempted, Suspended, Complete, Failed: all are set from the operator's first visit on. "
        "RescalePending: only of elastic jobs; why the job runs on with other workers than spec.workers.",
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    observed_generation: int | None = Field(
        default=None, description="Generation of the spec that this status is based on.", ge=0
    )
    attained_service_gpu_milliseconds: int = Field(
        default=0,
        description="Attained service up to serviceCountedAt: GPUs times running time. A share of s percent counts as s/100 GPU.",
        alias="attainedServiceGPUMilliseconds",
        ge=0,
    )
    held_gpu_milliseconds: int = Field(
        default=0,
        description="GPU time held up to serviceCountedAt: as the service, but jobs that take turns on a GPU hold it once together.",
        alias="heldGPUMilliseconds",
        ge=0,
    )
    executed_milliseconds: int = Field(default=0, description="Running time up to serviceCountedAt.", ge=0)
    service_counted_at: Time | None = Field(
        default=None,
        description="Time up to which service is counted. Absent while the job attains none.",
    )
    waited_milliseconds: int = Field(
        default=0,
        description="Time up to waitCountedAt in which the job waited or was paused because of other jobs. Time in which it was "
        "suspended, held back by its quota, or fitted no usable node does not count.",
        ge=0,
    )
    wait_counted_at: Time | None = Field(
        default=None,
        description="Time up to which such waiting is counted. Absent while there is none.",
    )
    service_at_promotion_gpu_milliseconds: int = Field(
        default=0,
        description="Attained service at the last promotion to the first queue after a long wait; "
        "the queue is computed from the service since then (Tiresias, promotion knob).",
        alias="serviceAtPromotionGPUMilliseconds",
        ge=0,
    )
    queue: int = Field(default=0, description="Queue of the job in the order policy; 0 is the first.", ge=0)
    attempt: int = Field(default=0, description="Number of times that the gang was started.", ge=0)
    attempt_workers: int = Field(
        default=0, description="Number of workers of the last attempt; 0: unknown.", ge=0
    )
    attempt_batch: int = Field(
        default=0,
        description="Samples of a step of all workers that the operator chose for the last attempt, as the batch of the highest goodput. "
        "laneway.client.batch_size uses it where the script lets its batch grow. 0: none was chosen.",
        ge=0,
    )
    ended_attempts: tuple[AttemptStatus, ...] = Field(
        default=(),
        description=f"The latest {MOST_ATTEMPTS} attempts that are over, in their order.",
        max_length=MOST_ATTEMPTS,
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )
    selector: str = Field(
        default="",
        description="Selects the pods of the workers; for the scale subresource. Absent for a job without minWorkers and maxWorkers.",
    )
    placement: tuple[WorkerPlacementStatus, ...] = Field(
        default=(),
        description="Where the workers run or are about to run; of a finished job, where they ran last.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )
    profile: ProfileStatus | None = Field(default=None, description="Measurements of the job's iterations.")
    execution: ExecutionStatus | None = Field(
        default=None, description="What the attempt ran that was measured last, or ended since."
    )
    progress: ProgressStatus | None = Field(default=None, description="Progress of the training.")
    goodput: GoodputStatus | None = Field(
        default=None, description="Goodput of the training; absent until its clients report a batch."
    )
    cpus: CPUStatus | None = Field(
        default=None,
        description="The CPUs of the workers, while they have others than they request, or a kubelet refuses to change them.",
    )
    turns: int = Field(default=0, description="Turns that the workers took in their lanes.", ge=0)
    turns_before_attempt: int = Field(
        default=0, description="Turns that were taken before the current attempt.", ge=0
    )
    preemptions: int = Field(default=0, description="Number of times that the job was preempted.", ge=0)
    restarts: int = Field(default=0, description="Number of restarts after worker failures.", ge=0)
    rescales: int = Field(default=0, description="Number of restarts with another number of workers.", ge=0)
    rescale: RescaleStatus | None = Field(
        default=None, description="The last restart with another number of workers."
    )
    executed_before_attempt_milliseconds: int = Field(
        default=0, description="executedMilliseconds when the current attempt was placed.", ge=0
    )
    working_workers: int = Field(
        default=0,
        description="Number of workers of the last ended attempt that ran for ten minutes; 0: unknown. Absent for a job without minWorkers and "
        "maxWorkers.",
        ge=0,
    )
    failed_workers: tuple[FailedWorkersStatus, ...] = Field(
        default=(),
        description="Numbers of workers with which the job failed soon after a rescale.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )
    preemption: PreemptionStatus | None = Field(
        default=None, description="The current preemption, while it lasts."
    )
    last_preemption: PreemptionStatus | None = Field(
        default=None,
        description="The last preemption that is over. It is kept when the job runs again and when it ends.",
    )
    waiting: WaitingStatus | None = Field(
        default=None, description="Why the job does not run; absent while it runs and after its end."
    )
    avoid: tuple[AvoidedNodeStatus, ...] = Field(
        default=(),
        description="Nodes on which the job is not placed for a while, because its workers could not start or failed repeatedly there.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )
    failures: tuple[NodeFailuresStatus, ...] = Field(
        default=(),
        description="Recent failures of the workers, by node.",
        json_schema_extra=WRITTEN_AS_A_WHOLE,
    )
    unstarted_attempts: int | None = Field(
        default=None,
        description="Attempts in a row that ended before all workers ran. From the second on, the job waits before the next. "
        "Absent once all workers run.",
        ge=1,
    )
    scheduler_refusal: SchedulerRefusalStatus | None = Field(
        default=None,
        description="Set when kube-scheduler or a kubelet refused workers. Other jobs are not preempted for this one for five minutes at least, and after "
        "kube-scheduler not until its spec changes, one of these nodes has more resources, or a pod leaves it. Absent once all workers run.",
    )
    start_time: Time | None = Field(default=None, description="When the job first ran.")
    completion_time: Time | None = Field(
        default=None,
        description="When the job completed or failed.",
    )

    @property
    def avoided_workers(self) -> frozenset[int]:
        """The numbers of workers to which the job is not rescaled."""
        return frozenset(each.workers for each in self.failed_workers if each.avoided)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def workers(self) -> Annotated[int, Field(ge=0)]:
        """Number of workers of the current attempt; 0 while the job has none."""
        return 0 if self.completion_time is not None else len(self.placement)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def state(self) -> SummaryState:
        """Summary of the conditions for people. Programs read the conditions."""
        return self._summary[0]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def reason(self) -> str:
        """Why the job is in this state, as one CamelCase word; empty where the state says all."""
        return self._summary[1]

    @property
    def _summary(self) -> tuple[SummaryState, str]:
        return summarize(self.conditions, self.waiting.reason if self.waiting else "")
