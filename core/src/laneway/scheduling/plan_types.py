"""What a plan says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TypeVar

from laneway.scheduling.allocation.policy import WorkerAllotment
from laneway.scheduling.snapshot import WorkerPlacement

Value = TypeVar("Value")


def _none() -> Mapping[str, Value]:
    return MappingProxyType({})


class WaitingCode(StrEnum):
    """Why a job waits, as one word that programs may rely on (the reason of its status)."""

    SUSPENDED = "Suspended"
    """Its user does not want it to run."""

    NOT_ENOUGH_GPUS = "NotEnoughGPUs"
    """Never: the cluster has fewer suitable GPUs than the gang needs."""

    MODEL_NOT_IN_CLUSTER = "ModelNotInCluster"
    """Never: no GPU is of a model that it accepts."""

    ENFORCEMENT_NOT_IN_CLUSTER = "EnforcementNotInCluster"
    """Never, as it is: no GPU that it accepts is held as strongly as it demands."""

    GPU_TOO_SMALL = "GPUTooSmall"
    """Never: no GPU has so much memory."""

    WORKER_LARGER_THAN_NODE = "WorkerLargerThanNode"
    """Never: no node has so many GPUs for one worker."""

    NODES_UNAVAILABLE = "NodesUnavailable"
    """It would fit if nodes or GPUs were back that are cordoned, unhealthy or kept away from for now."""

    GPUS_BUSY = "GPUsBusy"
    """It waits for others to end."""

    GPUS_FRAGMENTED = "GPUsFragmented"
    """Enough is free in sum, and not where one gang could use it."""

    AWAITING_PREEMPTION = "AwaitingPreemption"
    """Others make way for it."""

    AWAITING_DEPARTURE = "AwaitingDeparture"
    """Jobs that are leaving hold its GPUs until their workers are gone."""

    AWAITING_PROFILE = "AwaitingProfile"
    """Memory lacks on shared GPUs, whose jobs count with their whole share until they are profiled."""

    AWAITING_CONSOLIDATION = "AwaitingConsolidation"
    """Enough is free, and spread over more nodes than it accepts."""

    AWAITING_BETTER_PLACE = "AwaitingBetterPlace"
    """GPUs have room for it, and the placement policy waits for others: these would slow it, or those there, down too much."""

    BEHIND_OTHERS = "BehindOthers"
    """It is not its turn: a job before it waits for room on the same GPUs, and the order policy lets nobody pass."""

    NOT_CONSIDERED = "NotConsidered"
    """Its turn has not come in a decision that let many start: the next one follows at once."""

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
"""Codes of jobs that cannot run in this cluster, whoever leaves."""


@dataclass(frozen=True, slots=True)
class WaitingReason:
    """Why a job waits, and what would let it run."""

    code: WaitingCode
    message: str
    """Why, as a sentence with numbers."""

    unblock: str
    """What would let it run, as a sentence."""

    position: int = 0
    """Its place among the waiting jobs in this plan's order, 1 is next."""

    lacking_gpus: int = 0
    """How many more GPUs with room for it would do; 0 where GPUs are not what lacks."""

    lacking_bytes: int = 0
    """How much more GPU memory would do; 0 where memory is not what lacks."""

    blockers: tuple[str, ...] = ()
    """Jobs that it waits for, where they can be named."""

    def at(self, position: int) -> WaitingReason:
        """Return the same for a job at a place among those that wait. Thousands are made in a plan, so it is spelt out."""
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
        """Whether it cannot run in this cluster, whoever leaves."""
        return self.code in NEVER_FITS


class PreemptionReason(StrEnum):
    """Why a job makes way."""

    HIGHER_PRIORITY = "HigherPriority"
    HIGHER_QUEUE = "HigherQueue"
    """A job that the order policy puts before it needs its GPUs."""
    SUSPENDED = "Suspended"
    RESCALED = "Rescaled"
    """It is malleable, and starts again with another number of workers."""


class Depth(StrEnum):
    """How far a job makes way: each frees more than the one before, and costs more."""

    PAUSE = "Pause"
    """It stops at the end of an iteration and takes no turns; its memory stays on the GPU."""

    OFFLOAD = "Offload"
    """It also moves its memory to the host; its process stays."""

    EVICT = "Evict"
    """It saves a checkpoint and ends; it starts again later, perhaps elsewhere."""


@dataclass(frozen=True, slots=True)
class Preemption:
    """A running job makes way, or one that stands aside goes further."""

    job: str
    reason: PreemptionReason
    message: str
    """Why, as a sentence."""

    beneficiary: str | None
    """The job that gets its GPUs; None where it stops for its own reasons."""

    depth: Depth = Depth.EVICT
    cost_seconds: float = 0.0
    """What that is expected to cost on each of its GPUs, by the preemption policy's figures; 0 where it stops for its own reasons."""


@dataclass(frozen=True)
class Plan:
    """What to do now. Every job of the snapshot is in exactly one of starts, resumes, preemptions, keeps and waiting,
    but for those that are ``LEAVING``, which are in none."""

    starts: Mapping[str, tuple[WorkerPlacement, ...]] = field(default_factory=_none)
    """By job: where its workers are to be, ordered by rank. Only on what is free now: a job for which others make way
    waits in this plan and starts in one of the next, when they are gone."""

    preemptions: Mapping[str, Preemption] = field(default_factory=_none)
    resumes: tuple[str, ...] = ()
    """Paused and offloaded jobs that go on where they are."""

    rescales: Mapping[str, int] = field(default_factory=_none)
    """By malleable job that is preempted to be rescaled: the number of workers that it is to start with again."""

    allocations: Mapping[str, tuple[WorkerAllotment, ...]] = field(default_factory=_none)
    """By job that starts or stays: what each worker may use of its node's CPUs and memory. Empty where no allocation
    policy is chosen."""

    keeps: tuple[str, ...] = ()
    """Jobs that stay where they are, in order."""

    waiting: Mapping[str, WaitingReason] = field(default_factory=_none)
    """By job, in order."""

    order: tuple[str, ...] = ()
    """All jobs, first the one that goes first."""

    queues: Mapping[str, int] = field(default_factory=_none)
    """By job: the order policy's queue, 0 is the first; jobs that go before even that one are counted there."""

    promotions: tuple[str, ...] = ()
    """Jobs that this plan counts in the first queue because they waited long. The caller keeps, for each, its attained
    service as ``Job.service_at_promotion_gpu_seconds``, so that it stays promoted once it runs."""

    cut_short: bool = False
    """As many start as may at once: the next plan is due now."""
