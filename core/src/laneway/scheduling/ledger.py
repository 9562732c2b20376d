"""Who holds what of each GPU while a plan is made.

Three kinds of holds: *settled* (stays, or starts in this plan), *departing* (its workers are about to go) and *reserved*
(for a job that waits until somebody has gone). Two rooms look at them: ``now``, in which a job can start, counts the
departing and the reserved, where one covers the other; ``later``, in which a job can wait for departures, does not count
the departing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from laneway.lanes import Tenant
from laneway.scheduling.free_index import FreeIndex
from laneway.scheduling.snapshot import GPU, ClusterSnapshot, Job, JobState, WorkerPlacement
from laneway.scheduling.suitability import GPUClass, class_of
from laneway.scheduling.tenancy import foreign_tenant, tenant_of


class Hold(NamedTuple):
    """A worker's part of a GPU."""

    percent: int
    tenant: Tenant


@dataclass(slots=True)
class Holds:
    """All holds on one GPU, by job."""

    foreign: tuple[Hold, ...] = ()
    settled: dict[str, Hold] = field(default_factory=dict)
    departing: dict[str, Hold] = field(default_factory=dict)
    reserved: dict[str, Hold] = field(default_factory=dict)

    def percent(self, *, now: bool) -> int:
        """Return how much is not free."""
        stays = sum(hold.percent for hold in (*self.foreign, *self.settled.values()))
        reserved = sum(hold.percent for hold in self.reserved.values())
        if not now:
            return stays + reserved
        return stays + max(reserved, sum(hold.percent for hold in self.departing.values()))

    def tenants(self, *, now: bool) -> tuple[Tenant, ...]:
        """Return whose memory counts."""
        kinds = (self.settled, self.reserved, self.departing) if now else (self.settled, self.reserved)
        return tuple(hold.tenant for hold in self.foreign) + tuple(
            hold.tenant for kind in kinds for hold in kind.values()
        )


class Ledger:
    """The holds on every GPU, numbered in the order of (node, index, uuid)."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.nodes = tuple(sorted(snapshot.nodes, key=lambda node: node.name))
        numbered = [
            (number, gpu)
            for number, node in enumerate(self.nodes)
            for gpu in sorted(node.gpus, key=lambda gpu: (gpu.index, gpu.uuid))
        ]
        self.gpus: tuple[GPU, ...] = tuple(gpu for _, gpu in numbered)
        self.node_numbers: tuple[int, ...] = tuple(number for number, _ in numbered)
        self.classes: tuple[GPUClass, ...] = tuple(class_of(gpu) for gpu in self.gpus)
        self.number = {gpu.uuid: number for number, gpu in enumerate(self.gpus)}
        self.usable = frozenset(
            number
            for number, gpu in enumerate(self.gpus)
            if gpu.healthy and self.nodes[self.node_numbers[number]].schedulable
        )
        self.gpus_of_node: tuple[tuple[int, ...], ...] = _grouped(self.node_numbers, len(self.nodes))
        self.holds = [
            Holds(foreign=tuple(Hold(f.share_percent, foreign_tenant(f, gpu)) for f in gpu.foreign))
            for gpu in self.gpus
        ]
        self._of_job: dict[str, tuple[int, ...]] = {}
        for job in snapshot.jobs:
            if job.placement:
                self._enter(job, job.placement, departing=job.state is JobState.LEAVING)
        self.indexes = {
            now: FreeIndex(
                self.classes,
                self.node_numbers,
                {number: self.free_percent(number, now=now) for number in sorted(self.usable)},
            )
            for now in (True, False)
        }

    def free_percent(self, gpu: int, *, now: bool) -> int:
        """Return what is free of a GPU; 0 where more is held than it offers."""
        return max(0, self.gpus[gpu].allocatable_percent - self.holds[gpu].percent(now=now))

    def settle(self, job: Job, placement: Iterable[WorkerPlacement]) -> None:
        """Let a job start: from now on its GPUs are taken."""
        self._refresh(self._enter(job, placement, departing=False))

    def reserve(self, job: Job, placement: Iterable[WorkerPlacement]) -> None:
        """Keep GPUs for a job until those that leave have gone."""
        numbers = []
        for worker in placement:
            for uuid in worker.gpus:
                number = self.number[uuid]
                tenant = tenant_of(job, self.gpus[number], worker.share_percent)
                self.holds[number].reserved[job.key] = Hold(worker.share_percent, tenant)
                numbers.append(number)
        self._refresh(numbers)

    def depart(self, keys: Iterable[str]) -> None:
        """Count settled jobs as leaving."""
        for key in keys:
            for number in self._of_job[key]:
                self.holds[number].departing[key] = self.holds[number].settled.pop(key)
            self._refresh(self._of_job[key])

    def stay(self, keys: Iterable[str]) -> None:
        """Count leaving jobs as settled again."""
        for key in keys:
            for number in self._of_job[key]:
                self.holds[number].settled[key] = self.holds[number].departing.pop(key)
            self._refresh(self._of_job[key])

    def departing_from(self, placement: Iterable[WorkerPlacement]) -> tuple[str, ...]:
        """Return the jobs that are leaving these GPUs."""
        numbers = [self.number[uuid] for worker in placement for uuid in worker.gpus]
        return tuple(sorted({key for number in numbers for key in self.holds[number].departing}))

    def _enter(self, job: Job, placement: Iterable[WorkerPlacement], *, departing: bool) -> tuple[int, ...]:
        numbers = []
        for worker in placement:
            for uuid in worker.gpus:
                number = self.number.get(uuid)
                if number is None:
                    continue  # its node is gone from the snapshot: nothing is left to hold
                tenant = tenant_of(job, self.gpus[number], worker.share_percent)
                holds = self.holds[number]
                (holds.departing if departing else holds.settled)[job.key] = Hold(
                    worker.share_percent, tenant
                )
                numbers.append(number)
        self._of_job[job.key] = tuple(numbers)
        return self._of_job[job.key]

    def _refresh(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            for now, index in self.indexes.items():
                index.update(number, self.free_percent(number, now=now))


def _grouped(node_numbers: Iterable[int], count: int) -> tuple[tuple[int, ...], ...]:
    groups: list[list[int]] = [[] for _ in range(count)]
    for gpu, node in enumerate(node_numbers):
        groups[node].append(gpu)
    return tuple(tuple(group) for group in groups)
