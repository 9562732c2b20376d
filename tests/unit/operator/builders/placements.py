"""Where workers are: GPUs by node and number."""

from __future__ import annotations

from laneway.scheduling import WorkerPlacement


def placement_on(*nodes: str, gpus: int = 1, percent: int = 100) -> tuple[WorkerPlacement, ...]:
    """Workers on these nodes, each with the next free GPUs of its node."""
    taken: dict[str, int] = {}
    placement = []
    for rank, node in enumerate(nodes):
        first = taken.get(node, 0)
        taken[node] = first + gpus
        uuids = tuple(gpu_uuid(node, index) for index in range(first, first + gpus))
        placement.append(WorkerPlacement(rank, node, uuids, percent))
    return tuple(placement)


def gpu_uuid(node: str, index: int) -> str:
    """The name of a node's GPU."""
    return f"{node}/{index}"
