"""Count: any free GPUs will do; where they are makes no difference.

The ``count`` placement of Tiresias' public simulator (``run_sim.py``), which only compares the number of free GPUs with the
number requested. It serves to compare order policies with the reference, whose figures use it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import Job, WorkerPlacement
from laneway.scheduling.placement.gang_layout import Layout, on_first_nodes
from laneway.scheduling.placement.gang_placing import Choice, nodes_by_slots, place_gang
from laneway.scheduling.placement.policy import WithoutProfile


@dataclass(frozen=True, slots=True)
class Count(WithoutProfile):
    """Takes the first free GPUs by number; a worker's GPUs are on one node, because a process cannot span two."""

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if too few GPUs are free."""
        return place_gang(job, capacity, _first)


def _first(job: Job, capacity: FreeCapacity, choices: Sequence[Choice]) -> Layout | None:
    return on_first_nodes(job.demand.workers, nodes_by_slots(job, capacity, choices))
