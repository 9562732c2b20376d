"""``gpus.yaml``: a set of simulated GPUs, for machines without any. ``simulated-faults.yaml``: what is wrong with them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from laneway.api import quantity
from laneway.api.health_config import Xid
from laneway.api.schema import Model
from pydantic import Field, model_validator

_Size = Annotated[str, Field(pattern=quantity.PATTERN)]


class SimulatedGPU(Model):
    """``count`` equal GPUs."""

    model: str = Field(default="Laneway Simulated GPU", min_length=1, max_length=96)
    memory: str = Field(default="16Gi", pattern=quantity.PATTERN)
    count: int = Field(default=1, ge=1, le=64)
    numa_node: int | None = Field(default=None, ge=0, le=63)
    device_paths: tuple[Annotated[str, Field(pattern=r"^/[^:]+$")], ...] = Field(
        default=(),
        max_length=64,
        description="Device nodes of the host that stand for these GPUs, one for each, to test how a GPU reaches a container.",
    )

    @model_validator(mode="after")
    def _one_node_each(self) -> Self:
        if self.device_paths and len(self.device_paths) != self.count:
            raise ValueError(
                f"devicePaths: {len(self.device_paths)} for {self.count} GPUs: write one for each, or none"
            )
        return self

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


class SimulatedFault(Model):
    """What is wrong with one GPU, for as long as the file says so."""

    gpu: int = Field(ge=0, le=4095, description="The GPU's index.")
    xids: tuple[Xid, ...] = Field(
        default=(),
        description="Each is raised once, when it appears in the file; to raise one again, write it once more.",
    )
    lost: bool = Field(default=False, description="It fell off the bus: every call about it fails.")
    hangs: bool = Field(default=False, description="Calls about it return only when this is taken away.")
    mig: bool = Field(default=False, description="Its MIG mode is on.")
    uncorrected_errors: int = Field(
        default=0, ge=0, description="Memory errors that ECC could not correct, since the last reset."
    )
    remap_failed: bool = Field(default=False, description="Bad memory could not be replaced.")
    remap_pending: bool = Field(default=False, description="Bad memory is replaced at the next reset.")
    recovery: Literal["none", "drain", "reset", "reboot"] = Field(
        default="none", description="What the driver says that the GPU needs."
    )
    processes: dict[int, _Size] = Field(
        default={},
        description="Memory of processes as the driver sees it, by pid, in the place of what their sessions say.",
    )
    pods: dict[str, _Size] = Field(
        default={},
        description="Memory that the driver sees beyond what the sessions of a pod say, by NAMESPACE/NAME.",
    )

    @property
    def process_bytes(self) -> dict[int, int]:
        """``processes`` in bytes."""
        return {pid: quantity.parse_bytes(size) for pid, size in self.processes.items()}

    @property
    def extra_bytes_by_pod(self) -> dict[str, int]:
        """``pods`` in bytes."""
        return {pod: quantity.parse_bytes(size) for pod, size in self.pods.items()}

    @model_validator(mode="after")
    def _names_are_whole(self) -> Self:
        for pod in self.pods:
            if pod.count("/") != 1 or pod.startswith("/") or pod.endswith("/"):
                raise ValueError(f"pods: {pod!r} is no pod: write NAMESPACE/NAME")
        return self


class SimulatedFaults(Model):
    """The whole file; an empty one: nothing is wrong."""

    gpus: tuple[SimulatedFault, ...] = ()

    @model_validator(mode="after")
    def _each_gpu_once(self) -> Self:
        indices = [fault.gpu for fault in self.gpus]
        if twice := sorted({index for index in indices if indices.count(index) > 1}):
            raise ValueError(
                f"gpus: GPU {twice[0]} is there more than once: write all its faults in one place"
            )
        return self
