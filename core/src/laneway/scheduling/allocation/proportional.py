"""CPUs and memory in proportion to GPUs, as in schedulers that consider only GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.allocation.parts import independent_parts
from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang
from laneway.scheduling.allocation.shares import proportional_share
from laneway.scheduling.model.plan import WorkerAllotment


@dataclass(frozen=True, slots=True)
class Proportional:
    """Gives each worker the same fraction of its node's CPUs and memory as of its GPUs."""

    def allot(
        self, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return the proportional shares."""
        worker_counts: dict[str, tuple[WorkerAllotment, ...]] = {}
        for keys, part in independent_parts(nodes, gangs):
            for key, gang in zip(keys, part.gangs, strict=True):
                worker_counts[key] = tuple(
                    proportional_share(worker, part.nodes[worker.node]) for worker in gang.workers
                )
        return worker_counts
