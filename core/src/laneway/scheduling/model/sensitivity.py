"""How a job's throughput depends on CPUs and memory: its sensitivity profile (Synergy, OSDI'22, section 3).

A profile gives the fraction of its best throughput that a job reaches with an amount of CPUs and memory per GPU. More of
either never slows it down.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

SLACK = 1e-9
"""Two throughput ratios closer than this are the same: interpolation rounds."""


class Sensitivity(Hashable, Protocol):
    """A sensitivity profile. Hashable, because results are cached by profile."""

    @property
    def cpu_points_millis(self) -> tuple[int, ...]:
        """CPUs for a GPU at which the throughput was measured, rising."""
        ...

    @property
    def memory_points_bytes(self) -> tuple[int, ...]:
        """Memory for a GPU at which the throughput was measured, rising."""
        ...

    def ratio(self, cpu_millis: float, memory_bytes: float) -> float:
        """Return the fraction of its best throughput, 0 to 1, with this much per GPU. Rises with both."""
        ...


@dataclass(frozen=True, slots=True)
class MeasuredSensitivity:
    """A table of measured throughputs, interpolated linearly. Below the fewest CPUs measured, throughput falls linearly to 0.
    Below the least memory measured it counts as 0, because the job may not run at all. Beyond the table it stays constant.
    """

    cpu_points_millis: tuple[int, ...]
    memory_points_bytes: tuple[int, ...]
    ratios: tuple[tuple[float, ...], ...]
    """A row for each number of CPUs, a column for each size of memory; the largest is 1."""

    def __post_init__(self) -> None:
        for name, points in (("cpu", self.cpu_points_millis), ("memory", self.memory_points_bytes)):
            if not points or points[0] < 1 or any(after <= before for before, after in pairwise(points)):
                raise ValueError(
                    f"{name} points are {points}: write one or more, above 0, each larger than the last"
                )
        if [len(row) for row in self.ratios] != [len(self.memory_points_bytes)] * len(self.cpu_points_millis):
            raise ValueError(
                f"ratios have {[len(row) for row in self.ratios]} entries by row: write "
                f"{len(self.cpu_points_millis)} rows of {len(self.memory_points_bytes)}"
            )
        columns = tuple(zip(*self.ratios, strict=True))
        if any(after < before for line in (*self.ratios, *columns) for before, after in pairwise(line)):
            raise ValueError("ratios fall where CPUs or memory rise: build the table with from_throughputs")
        if self.ratios[0][0] < 0 or abs(self.ratios[-1][-1] - 1) > SLACK:
            raise ValueError(
                f"ratios go from {self.ratios[0][0]} to {self.ratios[-1][-1]}: write parts of the best, 0 or more to 1"
            )

    @classmethod
    def from_throughputs(cls, throughputs: Mapping[tuple[int, int], float]) -> MeasuredSensitivity:
        """Make the table from throughputs in any unit, by (CPU millis, memory bytes) per GPU. A throughput below one measured
        with less of both is noise and is raised to it. Raises ValueError if a combination is missing or nothing ran.
        """
        cpus = sorted({cpu for cpu, _ in throughputs})
        memories = sorted({memory for _, memory in throughputs})
        missing = [(cpu, memory) for cpu in cpus for memory in memories if (cpu, memory) not in throughputs]
        if missing:
            raise ValueError(
                f"no throughput for {missing} (CPU millis, memory bytes): measure every combination"
            )
        best = max(throughputs.values(), default=0.0)
        if best <= 0 or min(throughputs.values()) < 0:
            raise ValueError("write throughputs of 0 or more, at least one of them above 0")
        rows: list[tuple[float, ...]] = []
        below = (0.0,) * len(memories)
        for cpu in cpus:
            row: list[float] = []
            for memory, less_cpu in zip(memories, below, strict=True):
                row.append(max(throughputs[cpu, memory] / best, less_cpu, row[-1] if row else 0.0))
            below = tuple(row)
            rows.append(below)
        return cls(tuple(cpus), tuple(memories), tuple(rows))

    def ratio(self, cpu_millis: float, memory_bytes: float) -> float:
        """Return the fraction of its best throughput with this much per GPU."""
        if memory_bytes < self.memory_points_bytes[0] or cpu_millis <= 0:
            return 0.0
        low, high, part = _between(self.memory_points_bytes, memory_bytes)
        first, last, way = _between(self.cpu_points_millis, cpu_millis)
        with_more = _along(self.ratios[last][low], self.ratios[last][high], part)
        if first < 0:
            return with_more * cpu_millis / self.cpu_points_millis[0]
        return _along(_along(self.ratios[first][low], self.ratios[first][high], part), with_more, way)


@dataclass(frozen=True, slots=True)
class BestDemand:
    """The least amount per GPU with which a job reaches its best throughput, or nearly so."""

    cpu_millis: int
    memory_bytes: int
    ratio: float


def best_demand(
    sensitivity: Sensitivity, cpu_limit_millis: int, memory_limit_bytes: int, tolerance_ratio: float
) -> BestDemand:
    """Return the best amount of CPUs and memory per GPU, within limits per GPU.

    First the fewest CPUs that reach ``1 - tolerance_ratio`` of what the limits allow, then the least memory beside
    them: CPUs are what jobs contend for (Synergy, section 2). All in ratios of the job's own best throughput.
    """
    wanted = (1 - tolerance_ratio) * sensitivity.ratio(cpu_limit_millis, memory_limit_bytes)
    cpu = least_cpu_millis(sensitivity, wanted, cpu_limit_millis, memory_limit_bytes)
    memory = least_memory_bytes(sensitivity, wanted, cpu, memory_limit_bytes)
    return BestDemand(cpu, memory, sensitivity.ratio(cpu, memory))


def least_cpu_millis(sensitivity: Sensitivity, wanted_ratio: float, at_most: int, memory_bytes: float) -> int:
    """Return the fewest CPUs, with this memory, that reach a ratio; ``at_most`` if none do."""
    return bisect_left(
        range(at_most), wanted_ratio - SLACK, key=lambda cpu: sensitivity.ratio(cpu, memory_bytes)
    )


def least_memory_bytes(sensitivity: Sensitivity, wanted_ratio: float, cpu_millis: float, at_most: int) -> int:
    """Return the least memory, with these CPUs, that reaches a ratio; ``at_most`` if none does."""
    return bisect_left(
        range(at_most), wanted_ratio - SLACK, key=lambda memory: sensitivity.ratio(cpu_millis, memory)
    )


def _between(points: tuple[int, ...], value: float) -> tuple[int, int, float]:
    """Return the points around a value, and its relative position between them.

    Below the first point, the lower one is -1; beyond the last, both are the last.
    """
    above = bisect_right(points, value)
    if above == 0:
        return -1, 0, 0.0
    if above == len(points):
        return above - 1, above - 1, 0.0
    return above - 1, above, (value - points[above - 1]) / (points[above] - points[above - 1])


def _along(start: float, end: float, part: float) -> float:
    return start + part * (end - start)
