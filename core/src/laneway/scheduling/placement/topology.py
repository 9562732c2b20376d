"""Topology: the gang on the closest set of GPUs.

Gradients travel fastest over NVLink, slower through a node's memory, slower again from node to node, slowest from rack to
rack and from zone to zone. So a worker's GPUs, and the workers on one node, are NVLink peers if possible; a gang goes on one node if
one has room, else on few nodes of one rack, else of one zone, else of few zones. It never waits for that. The levels are those of Kueue's
topology-aware scheduling and of Gandiva's affinity (OSDI'18, section 3); the order in which GPUs of a node are chosen is that of NVIDIA's
``go-gpuallocator``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import GPU, Job, WorkerPlacement
from laneway.scheduling.placement.closest_nodes import on_closest_nodes
from laneway.scheduling.placement.gang_layout import Layout
from laneway.scheduling.placement.gang_placing import Choice, nodes_by_slots, on_a_shared_gpu, place_gang
from laneway.scheduling.placement.nvlink import closeness, closest
from laneway.scheduling.placement.policy import WithoutProfile


@dataclass(frozen=True, slots=True)
class Topology(WithoutProfile):
    """NVLink peers, then a node, then a rack, then a zone."""

    nodes_compared: int = 8
    """The number of nodes compared by the links of their free GPUs, among those that a gang fills equally well. More are
    slower and hardly ever better, because the nodes of a cluster are wired alike."""

    def __post_init__(self) -> None:
        if self.nodes_compared < 1:
            raise ValueError(f"nodes_compared is {self.nodes_compared}: write 1 or more")

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit."""
        return on_a_shared_gpu(job, capacity) or place_gang(job, capacity, self._closest, _linked)

    def _closest(self, job: Job, capacity: FreeCapacity, choices: Sequence[Choice]) -> Layout | None:
        workers = job.demand.workers
        slots = nodes_by_slots(job, capacity, choices)
        roomy = min((size for size, nodes in slots.items() if size >= workers and nodes), default=None)
        if roomy is not None:
            return [(self._best_linked(job, capacity, choices, slots[roomy]), workers)]
        return on_closest_nodes(workers, slots, capacity.domains)

    def _best_linked(
        self, job: Job, capacity: FreeCapacity, choices: Sequence[Choice], nodes: Sequence[int]
    ) -> int:
        """Return the node, among those that can take the gang, whose GPUs for it are closest to one another."""
        wanted = job.demand.gpus
        if len(nodes) == 1 or len(choices) > 1:
            return nodes[0]
        best, best_closeness = nodes[0], None
        for node in nodes[: self.nodes_compared]:
            free = capacity.gpus_on(node, job, *choices[0])
            found = closeness(closest(free, wanted), free)
            if best_closeness is None or found > best_closeness:
                best, best_closeness = node, found
            if found[0] == wanted * (wanted - 1) // 2 and not found[2]:
                break  # all of them are linked, and no link is cut: nothing is closer
        return best


def _linked(_: FreeCapacity, gpus: Sequence[GPU], count: int) -> Sequence[GPU]:
    return closest(gpus, count)
