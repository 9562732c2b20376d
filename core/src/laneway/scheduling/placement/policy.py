"""The protocol of placement policies: which GPUs for a gang."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import Job, Profile, WorkerPlacement


class PlacementPolicy(Protocol):
    """Finds GPUs for a whole gang, or none. Pure: it reads the free capacity and changes nothing."""

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go, ordered by rank; None if the gang does not fit in the free capacity.

        What is returned fits: distinct GPUs, enough free percent, the safety condition, models, modes, avoided nodes.
        """
        ...

    def profile_key(self, profile: Profile | None) -> Hashable:
        """Return what :meth:`place` itself reads of a job's profile; what memory fits is known to the free capacity.

        Jobs with equal demands and keys are placed alike, so that one of them can be tried for all.
        """
        ...


class WithoutProfile:
    """A placement policy that reads no profile."""

    __slots__ = ()

    def profile_key(self, profile: Profile | None) -> Hashable:
        """Return the same for every profile."""
        return None
