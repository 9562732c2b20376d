"""Which containers may share a GPU that NVIDIA's MPS holds (https://docs.nvidia.com/deploy/mps/).

The MPS control daemon limits all clients of a GPU to one amount of memory: the largest quota there. So a container that demands
the level `MPS` has it only while no other there has a larger share. Any container with a share counts, as long as it has its pod:
also a paused one. And an MPS server takes a limited number of clients of a GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from laneway.api.enforcement import Enforcement
from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.snapshot import Demand

MOST_CLIENTS: Final = 48
"""Clients of a GPU that an MPS server takes; 60 from CUDA 13.1 on. Each container counts as one."""


class MPSClient(NamedTuple):
    """A container on the GPU."""

    key: str
    share_percent: int
    demands_mps: bool


@dataclass(frozen=True, slots=True)
class MPSClients:
    """The containers on a GPU, summed up."""

    count: int = 0
    largest_percent: int = 0
    smallest_demanding_percent: int | None = None
    """The smallest share of those that demand MPS; None: none does."""

    @classmethod
    def of(cls, clients: Iterable[MPSClient]) -> MPSClients:
        """Sum containers up."""
        present = tuple(clients)
        return cls(
            len(present),
            max((each.share_percent for each in present), default=0),
            min((each.share_percent for each in present if each.demands_mps), default=None),
        )

    def takes(self, share_percent: int, demands_mps: bool) -> bool:
        """Whether one more container leaves each one that demands MPS, itself included, the largest share."""
        if self.count >= MOST_CLIENTS or (demands_mps and share_percent < self.largest_percent):
            return False
        return self.smallest_demanding_percent is None or share_percent <= self.smallest_demanding_percent


def demands_mps(demand: Demand) -> bool:
    """Whether a job is to run at the level MPS only."""
    return demand.minimum_enforcement is Enforcement.MPS


def mps_matters(gpu_class: GPUClass, share_percent: int) -> bool:
    """Whether a worker's neighbours on a GPU of a class share an MPS daemon's limits with it."""
    return gpu_class.enforcement is Enforcement.MPS and share_percent < gpu_class.allocatable_percent
