"""Models how memory affects a job that was measured over CPUs only, with a MinIO-style cache of its data set.

MinIO (Mohan et al., VLDB'21) caches as much of the data set as fits and never replaces it: every epoch hits exactly that part
and reads the rest from storage. So throughput with little memory need not be measured (Synergy, OSDI'22, section 3.2,
"optimistic profiling"): it is the smaller of the CPUs' and the storage's rates.
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.scheduling.model.sensitivity import MeasuredSensitivity


@dataclass(frozen=True, slots=True)
class MinIOSensitivity:
    """A curve over CPUs, cut off by storage. Reading the cache itself counts as free."""

    in_memory: MeasuredSensitivity
    """Measured over CPUs with the whole data set cached. Its one size of memory is what the job needs without a cache."""

    dataset_bytes: int
    """Size of the data set per GPU: the GPUs of a worker share one cache."""

    read_bytes_per_second: float
    """The rate at which one GPU reads the data set at the job's best throughput."""

    storage_bytes_per_second: float
    """The storage bandwidth per GPU."""

    def __post_init__(self) -> None:
        if len(self.in_memory.memory_points_bytes) != 1:
            raise ValueError(
                f"in_memory has {len(self.in_memory.memory_points_bytes)} sizes of memory: where memory was measured, "
                "use MeasuredSensitivity alone; here write one, what the job needs besides the cache"
            )
        if self.dataset_bytes < 1 or self.read_bytes_per_second <= 0 or self.storage_bytes_per_second <= 0:
            raise ValueError(
                f"dataset_bytes is {self.dataset_bytes}, read_bytes_per_second {self.read_bytes_per_second}, "
                f"storage_bytes_per_second {self.storage_bytes_per_second}: write numbers above 0"
            )

    @property
    def cpu_points_millis(self) -> tuple[int, ...]:
        """CPUs for a GPU at which the throughput was measured."""
        return self.in_memory.cpu_points_millis

    @property
    def memory_points_bytes(self) -> tuple[int, ...]:
        """Without a cache, and with all of the data set in it."""
        without = self.in_memory.memory_points_bytes[0]
        return (without, without + self.dataset_bytes)

    def ratio(self, cpu_millis: float, memory_bytes: float) -> float:
        """Return the part of its best throughput with this much for each GPU."""
        hit_ratio = (memory_bytes - self.in_memory.memory_points_bytes[0]) / self.dataset_bytes
        prepared = self.in_memory.ratio(cpu_millis, memory_bytes)
        if hit_ratio >= 1:
            return prepared
        return min(prepared, self.storage_bytes_per_second / (self.read_bytes_per_second * (1 - hit_ratio)))
