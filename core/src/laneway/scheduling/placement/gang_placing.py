"""Turns a rule that lays a gang over nodes into the placement of its workers: the common part of the policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from laneway.api.training_job import PlacementMode
from laneway.scheduling.gpus.fit import FreeCapacity
from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.snapshot import GPU, Job, WorkerPlacement
from laneway.scheduling.placement.closest_nodes import on_closest_nodes
from laneway.scheduling.placement.gang_layout import Layout, on_fewest_nodes, on_most_nodes

Choice = tuple[GPUClass, int]
"""A class of GPUs, and the percent of one that a worker needs."""

LayoutRule = Callable[[Job, FreeCapacity, Sequence[Choice]], Layout | None]
"""Chooses a gang's nodes by their GPUs of these classes; None if the gang does not fit or should wait."""

GPURule = Callable[[FreeCapacity, Sequence[GPU], int], Sequence[GPU]]
"""Chooses a number of a node's GPUs, which are given with the least free first. Returns at least that many."""


def fullest_first(_: FreeCapacity, gpus: Sequence[GPU], __: int) -> Sequence[GPU]:
    """Take the GPUs with the least free."""
    return gpus


def tightest(job: Job, capacity: FreeCapacity, choices: Sequence[Choice]) -> Layout | None:
    """Lay a gang on the node that it fills best, else over as few nodes as possible."""
    return on_fewest_nodes(job.demand.workers, nodes_by_slots(job, capacity, choices))


def consolidated(job: Job, capacity: FreeCapacity, choices: Sequence[Choice]) -> Layout | None:
    """Lay a gang on as few nodes as an empty cluster would need, of one rack or zone where one has room; None if that requires others to
    leave."""
    return on_the_closest(job, capacity, nodes_by_slots(job, capacity, choices))


def on_the_closest(job: Job, capacity: FreeCapacity, slots: Mapping[int, Sequence[int]]) -> Layout | None:
    """Do what :func:`consolidated` does with nodes that are given by the number of the gang's workers that each can take."""
    return on_closest_nodes(job.demand.workers, slots, capacity.domains, capacity.fewest_nodes(job))


def spread_out(job: Job, capacity: FreeCapacity, choices: Sequence[Choice]) -> Layout | None:
    """Lay a gang on as many nodes as it has workers, the roomiest first."""
    return on_most_nodes(job.demand.workers, nodes_by_slots(job, capacity, choices))


_RULE_OF_MODE: Mapping[PlacementMode, LayoutRule] = MappingProxyType(
    {PlacementMode.CONSOLIDATE: consolidated, PlacementMode.SPREAD: spread_out}
)


def place_gang(
    job: Job, capacity: FreeCapacity, rule: LayoutRule, take: GPURule = fullest_first
) -> tuple[WorkerPlacement, ...] | None:
    """Place a gang by the rule of its own mode if it has one, else by the policy's rule.

    A gang keeps to one class of GPUs where it can, because the slowest worker sets the pace of all.
    """
    rule = _RULE_OF_MODE.get(job.demand.mode, rule)
    choices = capacity.choices(job)
    if not choices or capacity.most_free_percent(job) < min(share_percent for _, share_percent in choices):
        return None  # the common case in a full cluster, and the cheapest to detect
    attempts: list[Sequence[Choice]] = [(choice,) for choice in choices]
    if len(choices) > 1 and job.demand.workers > 1:
        attempts.append(choices)
    for attempt in attempts:
        layout = rule(job, capacity, attempt)
        if layout is not None:
            return workers_on(job, capacity, attempt, layout, take)
    return None


def on_a_shared_gpu(job: Job, capacity: FreeCapacity) -> tuple[WorkerPlacement, ...] | None:
    """Place a single share beside others, on the GPU with the least left over; None if it would need a whole GPU."""
    if job.demand.gpus > 1:
        return None
    best: tuple[int, WorkerPlacement] | None = None
    for gpu_class, share_percent in capacity.choices(job):
        gpu = next(capacity.fullest(job, gpu_class, share_percent), None)
        if gpu is None or capacity.free_percent(gpu) == percent_of_an_empty(gpu):
            continue  # a whole GPU: the choice of the node matters more, so it is placed as a gang of one
        left_percent = capacity.free_percent(gpu) - share_percent
        if best is None or left_percent < best[0]:
            best = (left_percent, WorkerPlacement(0, gpu.node, (gpu.uuid,), share_percent))
    return None if best is None else (best[1],)


def percent_of_an_empty(gpu: GPU) -> int:
    """Return the free percent of a GPU on which no job takes turns."""
    return gpu.allocatable_percent if gpu.active_percent is None else gpu.active_percent


def nodes_by_slots(
    job: Job, capacity: FreeCapacity, choices: Sequence[Choice]
) -> Mapping[int, Sequence[int]]:
    """Return, by number of workers that a node can take, the nodes; those with fewer GPUs left over first."""
    per_worker = job.demand.gpus_per_worker
    by_class = [capacity.nodes_by_gpus(job, gpu_class, share_percent) for gpu_class, share_percent in choices]
    if len(by_class) == 1 and per_worker == 1:
        return by_class[0]
    found: dict[int, list[int]] = {}
    if len(by_class) == 1:
        for gpus in sorted(by_class[0]):
            found.setdefault(gpus // per_worker, []).extend(by_class[0][gpus])
        return found
    slots_of: dict[int, int] = {}
    for nodes_by_gpus in by_class:
        for gpus in sorted(nodes_by_gpus):
            for node in nodes_by_gpus[gpus]:
                slots_of[node] = slots_of.get(node, 0) + gpus // per_worker
    limits = capacity.host_limits(job)
    for node, slots in slots_of.items():
        found.setdefault(min(slots, limits.get(node, slots)), []).append(node)
    return found


def workers_on(
    job: Job, capacity: FreeCapacity, choices: Sequence[Choice], layout: Layout, take: GPURule
) -> tuple[WorkerPlacement, ...]:
    """Give each worker its GPUs; ranks on one node are neighbours."""
    workers: list[WorkerPlacement] = []
    for node, wanted in layout:
        end = len(workers) + wanted
        for gpu_class, share_percent in choices:
            free = capacity.gpus_on(node, job, gpu_class, share_percent)
            for uuids in _dealt(capacity, free, end - len(workers), job.demand.gpus_per_worker, take):
                workers.append(WorkerPlacement(len(workers), capacity.node_name(node), uuids, share_percent))
    return tuple(workers)


def _dealt(
    capacity: FreeCapacity, free: Sequence[GPU], workers: int, per_worker: int, take: GPURule
) -> list[tuple[str, ...]]:
    """Return the GPUs of up to this many workers on one node; GPUs of single-GPU workers are chosen together."""
    workers = min(workers, len(free) // per_worker)
    if per_worker == 1:
        return [(gpu.uuid,) for gpu in take(capacity, free, workers)[:workers]] if workers else []
    dealt: list[tuple[str, ...]] = []
    for _ in range(workers):
        uuids = tuple(gpu.uuid for gpu in take(capacity, free, per_worker)[:per_worker])
        dealt.append(uuids)
        free = [gpu for gpu in free if gpu.uuid not in uuids]
    return dealt
