"""``gpus.yaml``: a set of simulated GPUs, for machines without any."""

from __future__ import annotations

from laneway.api import quantity
from laneway.api.schema import Model
from pydantic import Field, model_validator


class SimulatedGPU(Model):
    """``count`` equal GPUs."""

    model: str = Field(default="Laneway Simulated GPU", min_length=1, max_length=96)
    memory: str = Field(default="16Gi", pattern=quantity.PATTERN)
    count: int = Field(default=1, ge=1, le=64)
    numa_node: int | None = Field(default=None, ge=0, le=63)

    @property
    def memory_bytes(self) -> int:
        """Memory of one of them."""
        return quantity.parse_bytes(self.memory)


class SimulatedGPUs(Model):
    """The whole file. A GPU's index is its place in the list, counts unfolded."""

    gpus: tuple[SimulatedGPU, ...] = Field(min_length=1)
    nvlinks: tuple[tuple[int, int], ...] = Field(
        default=(), description="Pairs of indices that NVLink joins."
    )

    @model_validator(mode="after")
    def _indices_exist(self) -> SimulatedGPUs:
        total = sum(gpu.count for gpu in self.gpus)
        for first, second in self.nvlinks:
            if first == second or not (0 <= first < total and 0 <= second < total):
                raise ValueError(
                    f"nvlinks: [{first}, {second}] must be two different indices from 0 to {total - 1}"
                )
        return self
