"""Spread: the emptiest nodes first.

Kubernetes' LeastAllocated, for GPUs: jobs share as little of a node as possible (CPUs, network, GPUs), and a failing node
takes few workers with it. The price is fragmentation: whole nodes and whole GPUs are used up first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.gpus.node_states import State
from laneway.scheduling.model.snapshot import GPU, Job, WorkerPlacement
from laneway.scheduling.placement.gang_layout import Layout, evenly
from laneway.scheduling.placement.gang_placing import Choice, nodes_by_slots, place_gang
from laneway.scheduling.placement.policy import WithoutProfile


@dataclass(frozen=True, slots=True)
class Spread(WithoutProfile):
    """Gives each worker a node, the one with the most free first; distributes evenly if there are fewer nodes than
    workers."""

    def place(self, job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit."""
        return place_gang(job, capacity, _emptiest_nodes, _emptiest_gpus)


def _emptiest_nodes(job: Job, capacity: FreeCapacity, choices: Sequence[Choice]) -> Layout | None:
    workers, per_worker = job.demand.workers, job.demand.gpus_per_worker
    by_slots = nodes_by_slots(job, capacity, choices)
    if sum(slots * len(nodes) for slots, nodes in by_slots.items()) < workers:
        return None
    limits = capacity.host_limits(job)
    found: list[tuple[int, int]] = []
    for node in _emptiest_first(job, capacity, choices):
        slots = sum(len(capacity.gpus_on(node, job, *choice)) // per_worker for choice in choices)
        slots = min(slots, limits.get(node, slots))
        if slots:
            found.append((node, slots))
            if len(found) == workers:
                break
    return evenly(workers, found)


def _emptiest_first(job: Job, capacity: FreeCapacity, choices: Sequence[Choice]) -> Iterator[int]:
    """Yield the nodes that may have room for a worker, those with the most free of GPUs of these classes first."""
    avoided = capacity.avoided(job)
    by_class = [capacity.states(gpu_class).nodes for gpu_class, _ in choices]
    if len(by_class) == 1:
        states, share_percent = by_class[0], choices[0][1]
        for state in sorted((state for state in states if state[-1] >= share_percent), key=_most_free_first):
            yield from (node for node in states[state] if node not in avoided)
        return
    free: dict[int, int] = {}
    for states in by_class:
        for state, nodes in states.items():
            for node in nodes:
                free[node] = free.get(node, 0) + sum(state)
    yield from sorted((node for node in free if node not in avoided), key=lambda node: (-free[node], node))


def _most_free_first(state: State) -> tuple[int, State]:
    return -sum(state), state


def _emptiest_gpus(capacity: FreeCapacity, gpus: Sequence[GPU], _: int) -> Sequence[GPU]:
    return sorted(gpus, key=lambda gpu: -capacity.free_percent(gpu))
