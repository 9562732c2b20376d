"""Best fit: leave as few fragments as can be.

A share goes to the fullest GPU that still has room for it, so that whole GPUs stay whole; a gang goes to the node that
it fills best, else over as few nodes as possible, so that whole nodes stay whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.api.training_job import PlacementMode
from laneway.scheduling.placement.gang_layout import Layout, on_fewest_nodes, on_most_nodes
from laneway.scheduling.room import Room
from laneway.scheduling.snapshot import Job, WorkerPlacement
from laneway.scheduling.suitability import GPUClass

Choice = tuple[GPUClass, int]
"""A class of GPUs, and the percent of one that a worker needs."""


@dataclass(frozen=True, slots=True)
class BestFit:
    """Fullest GPU, tightest node, fewest nodes."""

    def place(self, job: Job, room: Room) -> tuple[WorkerPlacement, ...] | None:
        """Return where the job's workers go; None if the gang does not fit.

        A gang keeps to one class of GPUs where it can, because the slowest worker sets the pace of all.
        """
        choices = room.choices(job)
        if job.demand.gpus == 1 and (shared := _on_a_shared_gpu(job, room, choices)) is not None:
            return shared
        for choice in choices:
            if (placement := _lay(job, room, (choice,))) is not None:
                return placement
        return _lay(job, room, choices) if len(choices) > 1 and job.demand.workers > 1 else None


def _on_a_shared_gpu(job: Job, room: Room, choices: Sequence[Choice]) -> tuple[WorkerPlacement, ...] | None:
    """Place a single share beside others, where the least is left over."""
    best: tuple[int, WorkerPlacement] | None = None
    for gpu_class, share_percent in choices:
        gpu = next(room.fullest(job, gpu_class, share_percent), None)
        if gpu is None or room.free_percent(gpu) == gpu_class.allocatable_percent:
            continue  # a whole GPU: which node loses it matters more, so it is placed as a gang of one
        left_percent = room.free_percent(gpu) - share_percent
        if best is None or left_percent < best[0]:
            best = (left_percent, WorkerPlacement(0, gpu.node, (gpu.uuid,), share_percent))
    return None if best is None else (best[1],)


def _lay(job: Job, room: Room, choices: Sequence[Choice]) -> tuple[WorkerPlacement, ...] | None:
    """Lay a gang over nodes with GPUs of these classes, as its mode has it."""
    slots = _nodes_by_slots(job, room, choices)
    if job.demand.mode is PlacementMode.SPREAD:
        layout = on_most_nodes(job.demand.workers, slots)
    else:
        layout = on_fewest_nodes(job.demand.workers, slots)
    if layout is None:
        return None
    if job.demand.mode is PlacementMode.CONSOLIDATE and len(layout) > room.fewest_nodes(job):
        return None
    return _workers(job, room, choices, layout)


def _nodes_by_slots(job: Job, room: Room, choices: Sequence[Choice]) -> Mapping[int, Sequence[int]]:
    """Return, by number of workers that a node can take, the nodes."""
    per_worker = job.demand.gpus_per_worker
    by_class = [room.nodes_by_gpus(job, gpu_class, share_percent) for gpu_class, share_percent in choices]
    if len(by_class) == 1 and per_worker == 1:
        return by_class[0]
    slots_of: dict[int, int] = {}
    for nodes_by_gpus in by_class:
        for gpus in sorted(nodes_by_gpus):  # fewer left over first, where several numbers give the same slots
            for node in nodes_by_gpus[gpus]:
                slots_of[node] = slots_of.get(node, 0) + gpus // per_worker
    nodes_by_slots: dict[int, list[int]] = {}
    for node, slots in slots_of.items():
        nodes_by_slots.setdefault(slots, []).append(node)
    return nodes_by_slots


def _workers(job: Job, room: Room, choices: Sequence[Choice], layout: Layout) -> tuple[WorkerPlacement, ...]:
    """Give each worker its GPUs; ranks on one node are neighbours."""
    workers: list[WorkerPlacement] = []
    per_worker = job.demand.gpus_per_worker
    for node, wanted in layout:
        end = len(workers) + wanted
        for gpu_class, share_percent in choices:
            gpus = [gpu.uuid for gpu in room.gpus_on(node, job, gpu_class, share_percent)]
            while len(workers) < end and len(gpus) >= per_worker:
                taken, gpus = gpus[:per_worker], gpus[per_worker:]
                workers.append(
                    WorkerPlacement(len(workers), room.node_name(node), tuple(taken), share_percent)
                )
    return tuple(workers)
