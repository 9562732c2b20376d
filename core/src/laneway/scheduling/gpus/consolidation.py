"""How closely a gang could be placed if the cluster were empty: what a gang waits for that is to be consolidated."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from laneway.scheduling.gpus.allocations import Allocations
from laneway.scheduling.gpus.domains import UNKNOWN
from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.snapshot import Demand


class Consolidation(NamedTuple):
    """The closest placement of a gang on usable nodes that are empty."""

    nodes: int
    """The fewest nodes; 0 if the gang does not fit."""

    depth: int | None
    """The narrowest level of which one domain could hold it on so few nodes, 0 being the widest. None: no domain could, or one node
    can."""


def closest_if_empty(
    allocations: Allocations, demand: Demand, classes: Collection[GPUClass], avoided: frozenset[int]
) -> Consolidation:
    """Return how closely a gang could be placed on empty nodes.

    Args:
        allocations: of the cluster.
        demand: what the gang needs.
        classes: the GPUs that suit it.
        avoided: numbers of the nodes that it is kept away from.
    """
    workers_on = _workers_on(allocations, demand, classes, avoided)
    fewest = _fewest_nodes(demand.workers, workers_on.values())
    if fewest < 2:
        return Consolidation(fewest, None)
    domains = allocations.domains
    for depth in reversed(range(len(domains.levels))):
        in_domain: dict[int, list[float]] = {}
        for node, workers in workers_on.items():
            in_domain.setdefault(domains.of(node, depth), []).append(workers)
        in_domain.pop(UNKNOWN, None)
        if any(_fewest_nodes(demand.workers, each) == fewest for each in in_domain.values()):
            return Consolidation(fewest, depth)
    return Consolidation(fewest, None)


def _workers_on(
    allocations: Allocations, demand: Demand, classes: Collection[GPUClass], avoided: frozenset[int]
) -> dict[int, float]:
    """Return, by node, how many of a gang's workers it could take if it were empty."""
    found: dict[int, float] = {}
    for node, gpus in enumerate(allocations.gpus_of_node):
        if node in avoided:
            continue
        counts: dict[GPUClass, int] = {}
        for number in gpus:
            if number in allocations.usable and allocations.classes[number] in classes:
                counts[allocations.classes[number]] = counts.get(allocations.classes[number], 0) + 1
        workers = sum(count // demand.gpus_per_worker for count in counts.values())
        found[node] = min(workers, allocations.hosts.most_workers(node, demand.requests))
    return found


def _fewest_nodes(workers: float, capacities: Iterable[float]) -> int:
    """Return how few nodes can take this many workers, given how many each can take; 0 if all together cannot."""
    for used, capacity in enumerate(sorted(capacities, reverse=True), start=1):
        workers -= capacity
        if workers <= 0:
            return used
    return 0
