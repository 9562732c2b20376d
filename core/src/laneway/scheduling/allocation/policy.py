"""The protocol of allocation policies: the CPUs and the memory of each worker of the placed gangs.

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
    """A node's CPUs and memory for the workers of gangs, without the requests of other pods."""

    node: str
    gpu_percent: int
    """Allocatable percent of all its GPUs together. Free GPUs are included, because their share of the node is reserved."""

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
    """The node of one worker, and its share of the node's GPUs."""

    worker: int
    node: str
    gpu_percent: int
    """Its GPUs times the percent that it has of each."""

    cpu_floor_millis: int = 0
    """The fewest CPUs that it may get. Policies do not read it: see :mod:`laneway.scheduling.allocation.floors`."""

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
        """Percent of GPUs of all its workers together: the weight of its throughput."""
        return sum(worker.gpu_percent for worker in self.workers)


class AllocationPolicy(Protocol):
    """Divides CPUs and memory. Pure and deterministic; the order of its arguments does not matter."""

    def allot(
        self, nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
    ) -> Mapping[str, tuple[WorkerAllotment, ...]]:
        """Return, for every gang, the allotments of its workers in their order; together they never exceed a node. Gangs that
        share no node, even indirectly, are independent: a caller may pass only the nodes on which something has changed.
        Raises ValueError if a gang is on a node that is not given, or if more GPUs of a node are placed than it has.
        """
        ...
