"""Holds an allocation policy to the fewest CPUs that each worker may get: its request, unless its job allows less.

A gang to which the policy gives fewer CPUs than that is pinned: it gets its floors and what memory the policy gave it. The policy
then divides what remains among the others. So a policy need not know of floors, and one of another package cannot break them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from laneway.scheduling.allocation.policy import AllocationPolicy, NodeCapacity, PlacedGang
from laneway.scheduling.model.plan import WorkerAllotment

Allotments = Mapping[str, tuple[WorkerAllotment, ...]]


def allot_with_floors(
    policy: AllocationPolicy, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
) -> Allotments:
    """Return what the workers of each gang get.

    No worker gets fewer CPUs than its floor. The CPUs of a node are not exceeded, unless the floors alone exceed them; then the
    workers there get their floors.

    Raises:
        ValueError: a placement is impossible (see :class:`AllocationPolicy`).
    """
    pinned: dict[str, tuple[WorkerAllotment, ...]] = {}
    free = [gang for gang in gangs if gang.key not in pinned]
    while True:
        allotted = policy.allot(nodes, free)
        low = [gang for gang in free if _is_low(gang, allotted[gang.key])]
        if not low:
            return {**allotted, **pinned}
        for gang in low:
            pinned[gang.key] = tuple(
                replace(has, cpu_millis=worker.cpu_floor_millis)
                for worker, has in zip(gang.workers, allotted[gang.key], strict=True)
            )
        nodes = [_without(node, low, pinned) for node in nodes]
        free = [gang for gang in free if gang.key not in pinned]


def _is_low(gang: PlacedGang, allotted: tuple[WorkerAllotment, ...]) -> bool:
    return any(
        has.cpu_millis < worker.cpu_floor_millis for worker, has in zip(gang.workers, allotted, strict=True)
    )


def _without(node: NodeCapacity, gangs: Sequence[PlacedGang], pinned: Allotments) -> NodeCapacity:
    """Return what a node has beside pinned gangs. One whose GPUs they all hold keeps a percent: a node without GPUs is none."""
    there = [
        (worker, has)
        for gang in gangs
        for worker, has in zip(gang.workers, pinned[gang.key], strict=True)
        if worker.node == node.node
    ]
    if not there:
        return node
    return NodeCapacity(
        node.node,
        max(1, node.gpu_percent - sum(worker.gpu_percent for worker, _ in there)),
        max(0, node.cpu_millis - sum(has.cpu_millis for _, has in there)),
        max(0, node.memory_bytes - sum(has.memory_bytes for _, has in there)),
    )
