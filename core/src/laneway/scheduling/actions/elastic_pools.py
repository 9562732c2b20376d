"""Which GPUs an elastic policy divides, among which jobs.

A policy is told numbers of GPUs by node, and takes each GPU for one that any of its jobs could use. So jobs that share no GPU that they could
use are divided apart: a job of one pool of nodes gets none of the GPUs that only jobs of another pool can use.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.snapshot import Demand, Job, JobState
from laneway.scheduling.order.remaining import demanded_gpus
from laneway.scheduling.state.scheduler_state import SchedulerState


class Slot(NamedTuple):
    """GPUs of one node that are alike."""

    node: int
    """Its number."""

    gpu_class: GPUClass
    taken_percent: int
    """What rigid jobs hold of each."""


class Pool(NamedTuple):
    """Elastic jobs that compete for the same GPUs, directly or through others."""

    keys: tuple[str, ...]
    free_gpus: Mapping[str, int]
    """By node: GPUs that rigid jobs leave, those that the jobs hold now included."""


class ElasticGPUs:
    """The GPUs that rigid jobs leave to elastic ones."""

    def __init__(self, state: SchedulerState, elastic: Mapping[str, Job], now_seconds: float) -> None:
        self._state = state
        self._slot_of = _slots(state, elastic)
        self._free = _counted(state, elastic, self._slot_of)
        self._keep_for_waiting(elastic, now_seconds)
        self._slots = {key: self._usable(job) for key, job in elastic.items()}

    @property
    def free(self) -> int:
        """The number of GPUs that any elastic job can use."""
        return sum(self._free[slot] for slot in set().union(*self._slots.values()))

    def most_workers(self, job: Job) -> int:
        """Return how many workers of an elastic job its GPUs have room for, if no other elastic job were there."""
        return sum(self._free[slot] // job.demand.gpus_per_worker for slot in self._slots[job.key])

    def pools(self, keys: Collection[str]) -> Iterator[Pool]:
        """Yield the pools of these jobs."""
        found: list[tuple[set[Slot], list[str]]] = []
        for key in sorted(keys):
            slots, members, apart = set(self._slots[key]), [key], []
            for each in found:
                if slots.isdisjoint(each[0]):
                    apart.append(each)
                else:
                    slots |= each[0]
                    members += each[1]
            found = [*apart, (slots, members)]
        nodes = self._state.allocations.nodes
        for slots, members in found:
            free: defaultdict[str, int] = defaultdict(int)
            for slot in slots:
                free[nodes[slot.node].name] += self._free[slot]
            yield Pool(tuple(sorted(members)), dict(sorted(free.items())))

    def _usable(self, job: Job) -> tuple[Slot, ...]:
        """Return the slots that a job can use, and those that it holds."""
        allocations, avoided = self._state.allocations, self._state.avoided.get(job.key, frozenset())
        shares = dict(self._state.capacity(IDLE).choices(job))
        held = {self._slot_of[number] for number in allocations.gpus_of(job.key)}

        def has_room(slot: Slot) -> bool:
            share_percent = shares.get(slot.gpu_class)
            return share_percent is not None and slot.taken_percent + min(100, share_percent) <= 100

        return tuple(
            slot for slot in self._free if slot in held or (slot.node not in avoided and has_room(slot))
        )

    def _keep_for_waiting(self, elastic: Mapping[str, Job], now_seconds: float) -> None:
        """Subtract the GPUs of waiting rigid jobs, in order, on the emptiest nodes that they can use.

        None are kept for a job that could not start even if all elastic jobs were gone: it waits for other rigid jobs, or its quota
        holds it back.
        """
        state, places = self._state, self._state.ranking.sort_keys
        waiting = [
            job
            for key, job in state.jobs.items()
            if key not in elastic and job.state is JobState.WAITING and not job.suspended
        ]
        kept_gpus: defaultdict[str, float] = defaultdict(float)
        hopeless: set[tuple[Demand, frozenset[int], str]] = set()
        for job in sorted(waiting, key=lambda each: places[each.key]):
            avoided = state.avoided.get(job.key, frozenset())
            kind = (job.demand, avoided, job.namespace if state.policies.admission else "")
            if kind in hopeless or not self._keep(job, kept_gpus[job.namespace], now_seconds):
                hopeless.add(kind)  # fewer GPUs are left to those that follow
            else:
                kept_gpus[job.namespace] += demanded_gpus(job)

    def _keep(self, job: Job, kept_gpus: float, now_seconds: float) -> bool:
        """Subtract the GPUs of one job; return whether it could start on them.

        Args:
            job: a rigid job that waits.
            kept_gpus: that are kept for jobs of its namespace which come before it.
            now_seconds: the moment.
        """
        state = self._state
        slots = sorted(
            (slot for slot in self._usable(job) if self._free[slot]),
            key=lambda slot: (-self._free[slot], slot),
        )
        if sum(self._free[slot] for slot in slots) < job.demand.gpus:
            return False
        avoided = state.avoided.get(job.key, frozenset())
        if state.cluster_capacity.unschedulable_reason(job.demand, avoided) is not None:
            return False
        with_those = with_gpus(job, kept_gpus)
        if any(
            policy.refusal(with_those, state.capacity(IDLE), now_seconds) is not None
            for policy in state.policies.admission
        ):
            return False
        wanted = job.demand.gpus
        for slot in slots:
            kept = min(wanted, self._free[slot])
            self._free[slot] -= kept
            wanted -= kept
        return True


def _slots(state: SchedulerState, elastic: Mapping[str, Job]) -> list[Slot]:
    """Return the slot of each GPU, by its number.

    What jobs that end hold for seconds counts as free: else a policy would be asked twice for each end.
    """
    allocations, taken = state.allocations, [gpu.foreign_percent for gpu in state.allocations.gpus]
    for key, entry in allocations.of_job.items():
        is_taken = key not in elastic and not state.jobs[key].frees_soon
        for number, percent in entry.shares if is_taken else ():
            taken[number] += percent
    numbers = range(len(allocations.gpus))
    return [
        Slot(allocations.node_numbers[at], allocations.classes[at], min(100, taken[at])) for at in numbers
    ]


def _counted(state: SchedulerState, elastic: Mapping[str, Job], slot_of: Sequence[Slot]) -> dict[Slot, int]:
    """Return the GPUs of each slot that jobs may have, and those that elastic jobs hold.

    The latter count even on a node that takes no new workers, such as a cordoned one: those that are there run on.
    """
    held = {number for key in elastic for number in state.allocations.gpus_of(key)}
    free = dict.fromkeys(slot_of, 0)
    for number in state.allocations.usable | held:
        free[slot_of[number]] += 1
    return free


def with_gpus(job: Job, gpus: float) -> Job:
    """Return a waiting job that needs further GPUs, as a quota counts them."""
    if not gpus:
        return job
    demand = job.demand
    workers = demand.workers + math.ceil(gpus * demand.workers / demanded_gpus(job))
    return replace(job, demand=replace(demand, workers=workers, min_workers=None, max_workers=None))
