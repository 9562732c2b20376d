"""First come, best demand (Synergy-Greedy, OSDI'22, section 4.1): a baseline for comparison.

A few jobs with large demands take all CPUs of a node, and its other GPUs stand idle: a job placed on them gets
nothing until one of the others ends. Synergy measures average completion times worse than with proportional
shares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.allocation.load import Load
from laneway.scheduling.allocation.options import GrainParameters, options
from laneway.scheduling.allocation.parts import independent_parts
from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang
from laneway.scheduling.model.plan import WorkerAllotment


@dataclass(frozen=True, slots=True)
class Greedy(GrainParameters):
    """Gives each job, in order, its best demand or nothing."""

    def allot(
        self, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return the best demands that fit; a gang whose demand no longer fits gets nothing, and its GPUs are stranded."""
        worker_counts: dict[str, tuple[WorkerAllotment, ...]] = {}
        for keys, part in independent_parts(nodes, gangs):
            load = Load(part)
            for number, gang in enumerate(part.gangs):
                best = options(gang, part.nodes, self.grain)[0]
                if load.fits(number, None, best):
                    load.take(number, best)
                    worker_counts[keys[number]] = best.workers
                else:
                    worker_counts[keys[number]] = tuple(
                        WorkerAllotment(worker.worker, 0, 0) for worker in gang.workers
                    )
        return worker_counts
