"""Consolidate: every gang runs on as few nodes as possible, or waits.

What YARN-CS does for every job, and what Tiresias (NSDI'19, section 3.3) calls strict consolidation: traffic between workers
stays inside a node, and a job waits while what is free lies on more nodes than an empty cluster would need. Of as few nodes, it takes
those of one rack, else of one zone; it does not wait for these. It is a baseline for other rules; models that tolerate being spread wait
in vain.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import Job, WorkerPlacement
from laneway.scheduling.placement.gang_placing import consolidated, on_a_shared_gpu, place_gang
from laneway.scheduling.placement.policy import WithoutProfile


@dataclass(frozen=True, slots=True)
class Consolidate(WithoutProfile):
    """Fewest nodes, waiting for them."""

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit on the fewest nodes that could hold it."""
        return on_a_shared_gpu(job, capacity) or place_gang(job, capacity, consolidated)

    def needs_consolidation(self, job: Job) -> bool:
        """Every gang does."""
        return True
