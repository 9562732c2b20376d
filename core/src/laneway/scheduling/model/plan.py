"""What a scheduling cycle decides: the plan, with a reason for every waiting job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from laneway.api.job_names import Sentence
from laneway.scheduling.model.held_rescale import HeldRescale
from laneway.scheduling.model.snapshot import WorkerPlacement

Value = TypeVar("Value")


def _none() -> Mapping[str, Value]:
    return MappingProxyType({})


class WaitingCode(StrEnum):
    """Why a job waits, as one word that programs may rely on (the reason of its status)."""

    SUSPENDED = "Suspended"
    """Its user has suspended it."""

    NOT_ENOUGH_GPUS = "NotEnoughGPUs"
    """Never: the cluster has fewer suitable GPUs than the gang needs."""

    MODEL_NOT_IN_CLUSTER = "ModelNotInCluster"
    """Never: no GPU is of a model that it accepts."""

    ENFORCEMENT_NOT_IN_CLUSTER = "EnforcementNotInCluster"
    """Not now: no GPU that it accepts has the enforcement level that it demands."""

    GPU_TOO_SMALL = "GPUTooSmall"
    """Never: no GPU has enough memory."""

    WORKER_LARGER_THAN_NODE = "WorkerLargerThanNode"
    """Never: no node has enough GPUs, or enough for the requests of its pod, for one worker."""

    NODES_UNAVAILABLE = "NodesUnavailable"
    """It would fit if the cordoned, unhealthy or avoided nodes and GPUs were usable again."""

    HELD_BY_OTHER_PODS = "HeldByOtherPods"
    """It would fit if other pods did not hold the CPUs, memory or other resources that its pods request."""

    GPUS_BUSY = "GPUsBusy"
    """It waits for other jobs to end."""

    GPUS_FRAGMENTED = "GPUsFragmented"
    """Enough is free in total, but not where one gang could use it."""

    HOST_RESOURCES_BUSY = "HostResourcesBusy"
    """GPUs are available, but on nodes that lack CPUs, memory or another resource for the requests of its pods."""

    AWAITING_PREEMPTION = "AwaitingPreemption"
    """Other jobs are preempted for it."""

    AWAITING_RELEASE = "AwaitingRelease"
    """Its GPUs are still held by jobs that are releasing them."""

    HAS_RESERVATION = "HasReservation"
    """It goes first, because it has had less than its fair share of the time; GPUs are reserved for its start."""

    AWAITING_PROFILE = "AwaitingProfile"
    """Shared GPUs have too little memory: their jobs count with the full share until they are profiled."""

    AWAITING_MPS_LIMIT = "AwaitingMPSLimit"
    """Shared GPUs have enough free, but MPS would not hold it, or a job there, to its share; or has no room for another client."""

    AWAITING_CONSOLIDATION = "AwaitingConsolidation"
    """Enough is free, but on more nodes than it accepts."""

    AWAITING_BETTER_PLACE = "AwaitingBetterPlace"
    """GPUs are available, but the placement policy waits for others: sharing these would slow it, or their jobs, too much."""

    BEHIND_OTHERS = "BehindOthers"
    """A job ahead of it waits for the same GPUs, and the order policy lets no job pass."""

    AWAITING_WORKERS = "AwaitingWorkers"
    """The elastic policy gives it no workers for now: the GPUs go to other jobs."""

    NOT_CONSIDERED = "NotConsidered"
    """The cycle was truncated before it; the next one follows at once."""

    NOT_ADMITTED = "NotAdmitted"
    """An admission policy holds it back."""


NEVER_FITS = frozenset(
    {
        WaitingCode.NOT_ENOUGH_GPUS,
        WaitingCode.MODEL_NOT_IN_CLUSTER,
        WaitingCode.ENFORCEMENT_NOT_IN_CLUSTER,
        WaitingCode.GPU_TOO_SMALL,
        WaitingCode.WORKER_LARGER_THAN_NODE,
    }
)
"""Codes of jobs that cannot run in this cluster even if it were empty."""

NOT_COMPETING = NEVER_FITS | {
    WaitingCode.SUSPENDED,
    WaitingCode.NOT_ADMITTED,
    WaitingCode.NODES_UNAVAILABLE,
    WaitingCode.HELD_BY_OTHER_PODS,
}
"""Codes of jobs that other jobs do not keep from running: their wait gives them no claim."""


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a job waits, and what would let it run."""

    code: WaitingCode
    message: Sentence
    """Why, with numbers."""

    unblock: str
    """What would let it run, as a sentence."""

    position: int = 0
    """Its place among the waiting jobs in this plan's order, 1 is next."""

    lacking_gpus: int = 0
    """The number of additional GPUs that would suffice; 0 where GPUs are not missing."""

    lacking_bytes: int = 0
    """The additional GPU memory that would suffice; 0 where memory is not missing."""

    blockers: tuple[str, ...] = ()
    """The jobs that it waits for, if known."""

    def at(self, position: int, before: WaitingReason | None = None) -> WaitingReason:
        """Return the same reason at a position among the waiting jobs; ``before`` itself where that is it. A plan has thousands, so this
        avoids ``replace``."""
        if (
            before is not None
            and before.position == position
            and before.code is self.code
            and before.message == self.message
            and before.unblock == self.unblock
            and before.blockers == self.blockers
            and before.lacking_gpus == self.lacking_gpus
            and before.lacking_bytes == self.lacking_bytes
        ):
            return before
        return WaitingReason(
            self.code,
            self.message,
            self.unblock,
            position,
            self.lacking_gpus,
            self.lacking_bytes,
            self.blockers,
        )

    @property
    def never_fits(self) -> bool:
        """Whether it cannot run in this cluster even if it were empty."""
        return self.code in NEVER_FITS


class PreemptionReason(StrEnum):
    """Why a job is preempted or stopped."""

    HIGHER_PRIORITY = "HigherPriority"
    HIGHER_QUEUE = "HigherQueue"
    """The preemptor comes before it in the order policy."""
    SUSPENDED = "Suspended"
    RESCALING = "Rescaling"
    """It is elastic, and restarts with another number of workers."""
    SEPARATED = "Separated"
    """It shared GPUs with other jobs, and that was measured to be too slow."""
    REASSIGNED = "Reassigned"
    """Its round is over: it gets GPUs of another model, or its GPUs go to other jobs."""


class PreemptionAction(StrEnum):
    """The preemption of a victim. Each action frees more than the one before, and costs more."""

    PAUSE = "Pause"
    """It stops at the end of an iteration and takes no turns; its memory stays on the GPU."""

    OFFLOAD = "Offload"
    """Its memory also moves to the host; its process stays."""

    EVICT = "Evict"
    """It saves a checkpoint and ends; it starts again later, perhaps elsewhere."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A running job is paused, offloaded or evicted, or a paused one is offloaded or evicted."""

    job: str
    reason: PreemptionReason
    message: Sentence
    """Why."""

    preemptor: str | None
    """The job that gets its GPUs; None if it stops by itself."""

    action: PreemptionAction = PreemptionAction.EVICT
    cost_seconds: float = 0.0
    """The expected cost on each of its GPUs, by the preemption policy; 0 if it stops by itself."""


@dataclass(frozen=True, slots=True)
class WorkerAllotment:
    """The CPUs and memory of one worker."""

    worker: int
    cpu_millis: int
    memory_bytes: int


class PolicyFailure(NamedTuple):
    """A policy that gave no answer, or an impossible one. It costs the decision of its stage only."""

    stage: str
    policy: str
    message: str

    @classmethod
    def of(cls, stage: str, policy: object, error: Exception) -> PolicyFailure:
        """Return the failure of a policy that raised an error."""
        return cls(stage, type(policy).__name__, f"{type(error).__name__}: {error}")


@dataclass(frozen=True)
class Plan:
    """What to do now. Every job of the snapshot is in exactly one of starts, resumes, preemptions, keeps and waiting,
    except jobs that are releasing their GPUs, which are in none."""

    starts: Mapping[str, tuple[WorkerPlacement, ...]] = field(default_factory=_none)
    """By job: the placement of its workers, ordered by rank, on GPUs that are free now. A preemptor waits in this plan and starts
    in a later one, when its victims are gone."""

    preemptions: Mapping[str, Preemption] = field(default_factory=_none)
    resumes: tuple[str, ...] = ()
    """Paused and offloaded jobs that resume in place."""

    rescales: Mapping[str, int] = field(default_factory=_none)
    """By elastic job that is stopped to be rescaled: the number of workers with which it restarts."""

    allotments: Mapping[str, tuple[WorkerAllotment, ...]] = field(default_factory=_none)
    """By job that starts or stays: what each worker may use of its node's CPUs and memory. Empty where no allocation
    policy is chosen."""

    keeps: tuple[str, ...] = ()
    """Jobs that keep their GPUs, in order."""

    waiting: Mapping[str, WaitingReason] = field(default_factory=_none)
    """By job, in order."""

    order: tuple[str, ...] = ()
    """All jobs; the first one goes first."""

    queues: Mapping[str, int] = field(default_factory=_none)
    """By job: the order policy's queue, 0 is the first; jobs that go before even that one are counted there."""

    promotions: tuple[str, ...] = ()
    """Jobs that this plan counts in the first queue because they waited long. The caller keeps, for each, its attained
    service as ``Job.service_at_promotion_gpu_seconds``, so that it stays promoted once it runs."""

    truncated: bool = False
    """The most jobs that may start at once do start: the next plan is due now."""


@dataclass(slots=True)
class Decision:
    """What one scheduling cycle changes. The fields mean what they do in :class:`Plan`."""

    starts: dict[str, tuple[WorkerPlacement, ...]] = field(default_factory=dict)
    preemptions: dict[str, Preemption] = field(default_factory=dict)
    resumes: list[str] = field(default_factory=list)
    rescales: dict[str, int] = field(default_factory=dict)
    held_rescales: dict[str, HeldRescale] = field(default_factory=dict)
    """By running job whose user asks for another number of workers: why it keeps those that it has."""

    promotions: list[str] = field(default_factory=list)
    waiting: dict[str, WaitingReason] = field(default_factory=dict)
    """Reasons of some waiting jobs; of the others, :mod:`laneway.scheduling.explain.waiting` computes them on demand."""

    truncated: bool = False
