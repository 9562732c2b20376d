"""Profiles, nodes and gangs to divide CPUs and memory among."""

from __future__ import annotations

from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang, PlacedWorker
from laneway.scheduling.model.sensitivity import MeasuredSensitivity, Sensitivity

GIB = 2**30


def cpu_curve(points: dict[int, float], memory_bytes: int = 8 * GIB) -> MeasuredSensitivity:
    """A job measured over whole CPUs that does not benefit from more memory than it needs."""
    return MeasuredSensitivity.from_throughputs(
        {(1000 * cpu, memory_bytes): throughput for cpu, throughput in points.items()}
    )


HUNGRY = cpu_curve({1: 10.0, 3: 30.0, 6: 55.0, 12: 90.0})
"""An image model: three CPUs a GPU keep it at a third of its best."""

MODEST = cpu_curve({1: 100.0})
"""A language model: one CPU a GPU is all it uses."""


def node(name: str = "n1", gpus: int = 8, cpus: int = 24, memory_gib: int = 512) -> NodeCapacity:
    """A node with three CPUs and 64 GiB for each GPU, as in Synergy's evaluation."""
    return NodeCapacity(name, 100 * gpus, 1000 * cpus, memory_gib * GIB)


def gang(
    key: str, *workers: tuple[str, int], profile: Sensitivity | None = None, position: int = 0
) -> PlacedGang:
    """A gang with workers on nodes, each with its percent of GPUs."""
    return PlacedGang(
        key,
        tuple(PlacedWorker(rank, name, percent) for rank, (name, percent) in enumerate(workers)),
        profile,
        position,
    )
