"""Best fit: leave as few fragments as can be.

A share goes to the fullest GPU that still has room for it, so that whole GPUs stay whole; a gang goes to the node that
it fills best, else over as few nodes as possible, so that whole nodes stay whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import Job, WorkerPlacement
from laneway.scheduling.placement.gang_placing import on_a_shared_gpu, place_gang, tightest
from laneway.scheduling.placement.policy import WithoutProfile


@dataclass(frozen=True, slots=True)
class BestFit(WithoutProfile):
    """Fullest GPU, tightest node, fewest nodes."""

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit."""
        return on_a_shared_gpu(job, capacity) or place_gang(job, capacity, tightest)
