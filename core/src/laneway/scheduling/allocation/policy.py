"""What an allocation policy answers: the CPUs and the memory of each worker of the gangs that have been placed.

GPUs are counted in percent of one, so that a worker with half a GPU has half the claim of a worker with a whole one.
Memory is handed out in whole mebibytes, CPUs in thousandths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from laneway.scheduling.model.plan import WorkerAllotment
from laneway.scheduling.model.sensitivity import Sensitivity

MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """What a node has for the workers of gangs: less than its size where other pods have their part."""

    node: str
    gpu_percent: int
    """Allocatable percent of all its GPUs together, those that are free included: their share is kept for them."""

    cpu_millis: int
    memory_bytes: int

    def __post_init__(self) -> None:
        if self.gpu_percent < 1:
            raise ValueError(f"node {self.node} has {self.gpu_percent} percent of a GPU: write 1 or more")
        if self.cpu_millis < 0 or self.memory_bytes < 0:
            raise ValueError(
                f"node {self.node} has {self.cpu_millis} CPU millis and {self.memory_bytes} bytes: write 0 or more"
            )


@dataclass(frozen=True, slots=True)
class PlacedWorker:
    """Where one worker of a gang is, and how much of its node's GPUs it has."""

    worker: int
    node: str
    gpu_percent: int
    """Its GPUs times the percent that it has of each."""

    def __post_init__(self) -> None:
        if self.gpu_percent < 1:
            raise ValueError(
                f"worker {self.worker} on {self.node} has {self.gpu_percent} percent: write 1 or more"
            )


@dataclass(frozen=True, slots=True)
class PlacedGang:
    """A gang that holds GPUs, or is about to."""

    key: str
    """``namespace/name``."""

    workers: tuple[PlacedWorker, ...]
    sensitivity: Sensitivity | None = None
    """None: nothing was measured; it gets its proportional share."""

    position: int = 0
    """Its place in the order of jobs, the first lowest. Ties go by key."""

    def __post_init__(self) -> None:
        if not self.workers:
            raise ValueError(f"gang {self.key} has no workers: leave out gangs that are not placed")

    @property
    def gpu_percent(self) -> int:
        """Percent of GPUs of all its workers together: what its throughput weighs."""
        return sum(worker.gpu_percent for worker in self.workers)


class AllocationPolicy(Protocol):
    """Divides CPUs and memory. Pure, deterministic, and the same however its arguments are listed."""

    def allot(
        self, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return by gang, for every gang, what its workers get, in their order; never more of a node than it has.

        Gangs that share no node, not even through others, do not matter to one another: a caller may ask again for
        only those nodes where something has changed. Raises ValueError if a gang is on a node that is not given, or
        if more GPUs of a node are placed than it has.
        """
        ...
