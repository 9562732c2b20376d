"""The protocol of placement policies: which GPUs for a gang."""

from __future__ import annotations

from typing import Protocol

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import Job, WorkerPlacement


class PlacementPolicy(Protocol):
    """Finds GPUs for a whole gang, or none. Pure: it reads the free capacity and changes nothing."""

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go, ordered by rank; None if the gang does not fit in the free capacity.

        What is returned fits: distinct GPUs, enough free percent, the safety condition, models, modes, avoided nodes.
        """
        ...
