"""The protocol of placement policies: which GPUs for a gang."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, runtime_checkable

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.shared_speeds import SharedSpeeds, SpeedsOf
from laneway.scheduling.model.snapshot import Job, WorkerPlacement


class PlacementPolicy(Protocol):
    """Finds GPUs for a whole gang, or none. Pure: it reads the free capacity and changes nothing."""

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go, ordered by rank; None if the gang does not fit in the free capacity.

        What is returned fits: distinct GPUs, enough free percent, the safety condition, models, modes, avoided nodes.
        """
        ...

    def profile_key(self, job: Job) -> Hashable:
        """Return what :meth:`place` itself reads of a job's profile and template; what memory fits is known to the free capacity.

        Jobs with equal demands and keys are placed alike, so that one of them can be tried for all.
        """
        ...


@runtime_checkable
class SharesGPUs(Protocol):
    """A placement policy that also says when jobs share GPUs, and when no longer."""

    def may_join(self, job: Job, others: Sequence[Job], speeds: SharedSpeeds) -> bool:
        """Whether a job may share a GPU with others, whose shares exceed 100 percent with its own.

        Args:
            job: waits, or is paused there.
            others: take turns on the GPU.
            speeds: what is known of jobs that share GPUs of its model.
        """
        ...

    def gain_ratio(self, job: Job, others: Sequence[Job], speeds_of: SpeedsOf) -> float:
        """Return what a job adds to the work of a GPU beside others; 1 is the work of a job alone.

        Args:
            job: shares the GPU, or may.
            others: share it.
            speeds_of: returns the speeds of jobs that share a GPU.
        """
        ...

    @property
    def keep_gain_ratio(self) -> float:
        """The least measured gain of a job that shares GPUs, for each of its GPUs; with less, it leaves. 1 is the work of a job
        alone."""
        ...


@runtime_checkable
class ConsolidatesGangs(Protocol):
    """A placement policy by which some gangs wait for the fewest nodes."""

    def needs_consolidation(self, job: Job) -> bool:
        """Whether a job waits for the fewest nodes that can hold it."""
        ...


class WithoutProfile:
    """A placement policy that reads no profile."""

    __slots__ = ()

    def profile_key(self, job: Job) -> Hashable:
        """Return the same for every job."""
        return None
