"""Topology: the gang on the closest set of GPUs.

Gradients travel fastest over NVLink, slower through a node's memory, slower again from node to node, slowest from rack to
rack. So a worker's GPUs, and the workers on one node, are NVLink peers if possible; a gang goes on one node if one has room,
else on few nodes of one rack, else on few racks. The levels are those of Kueue's topology-aware scheduling and of Gandiva's
affinity (OSDI'18, section 3); the order in which GPUs of a node are chosen is that of NVIDIA's ``go-gpuallocator``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.snapshot import GPU, Job, WorkerPlacement
from laneway.scheduling.placement.gang_layout import Layout, on_fewest_nodes
from laneway.scheduling.placement.gang_placing import Choice, nodes_by_slots, on_a_shared_gpu, place_gang
from laneway.scheduling.placement.nvlink import closeness, closest
from laneway.scheduling.placement.policy import WithoutProfile


@dataclass(frozen=True, slots=True)
class Topology(WithoutProfile):
    """NVLink peers, then a node, then a rack."""

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
        return _on_fewest_racks(workers, slots, capacity)

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


def _on_fewest_racks(
    workers: int, slots: Mapping[int, Sequence[int]], capacity: FreeCapacity
) -> Layout | None:
    """Lay a gang on the rack that it fills best, else over as few racks as possible; inside each, on few nodes."""
    racks: dict[str, dict[int, list[int]]] = {}
    for size in sorted(slots):
        for node in slots[size]:
            racks.setdefault(capacity.node(node).rack, {}).setdefault(size, []).append(node)
    names = sorted(racks)
    by_capacity: dict[int, list[int]] = {}
    for number, name in enumerate(names):
        workers_held = sum(size * len(nodes) for size, nodes in racks[name].items())
        by_capacity.setdefault(workers_held, []).append(number)
    layout: Layout = []
    for rack, wanted in on_fewest_nodes(workers, by_capacity) or []:
        layout += on_fewest_nodes(wanted, racks[names[rack]]) or []
    return layout or None


def _linked(_: FreeCapacity, gpus: Sequence[GPU], count: int) -> Sequence[GPU]:
    return closest(gpus, count)
