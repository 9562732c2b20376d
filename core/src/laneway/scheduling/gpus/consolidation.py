"""On how few nodes a gang could be placed if the cluster were empty: what a gang waits for that is to be consolidated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from laneway.scheduling.gpus.allocations import Allocations
from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.snapshot import Demand


def fewest_nodes_if_empty(
    allocations: Allocations, demand: Demand, classes: Collection[GPUClass], avoided: frozenset[int]
) -> int:
    """Return the fewest nodes on which a gang could be placed if they were empty; 0 if it does not fit.

    Args:
        allocations: of the cluster.
        demand: what the gang needs.
        classes: the GPUs that suit it.
        avoided: numbers of the nodes that it is kept away from.
    """
    return _fewest_nodes(demand.workers, _workers_on(allocations, demand, classes, avoided))


def _workers_on(
    allocations: Allocations, demand: Demand, classes: Collection[GPUClass], avoided: frozenset[int]
) -> Iterator[float]:
    """Yield how many of a gang's workers each node could take if it were empty."""
    for node, gpus in enumerate(allocations.gpus_of_node):
        if node in avoided:
            continue
        counts: dict[GPUClass, int] = {}
        for number in gpus:
            if number in allocations.usable and allocations.classes[number] in classes:
                counts[allocations.classes[number]] = counts.get(allocations.classes[number], 0) + 1
        workers = sum(count // demand.gpus_per_worker for count in counts.values())
        yield min(workers, allocations.hosts.most_workers(node, demand.requests))


def _fewest_nodes(workers: float, capacities: Iterable[float]) -> int:
    """Return how few nodes can take this many workers, given how many each can take; 0 if all together cannot."""
    for used, capacity in enumerate(sorted(capacities, reverse=True), start=1):
        workers -= capacity
        if workers <= 0:
            return used
    return 0
