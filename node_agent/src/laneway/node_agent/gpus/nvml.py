"""Real GPUs, through NVML (the module ``pynvml`` of the package ``nvidia-ml-py``).

https://docs.nvidia.com/deploy/nvml-api/ has the calls. Each of them may fail in its own way on some GPU, so what an older
GPU, a virtual one or MIG need not support is asked for with :func:`_supported`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

import pynvml
from laneway.node_agent.gpus.protocol import (
    DriverUnavailableError,
    GPUError,
    GPUFacts,
    GPULostError,
    GPUReading,
)

Result = TypeVar("Result")

_UNAVAILABLE = frozenset(
    {
        pynvml.NVML_ERROR_UNINITIALIZED,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    }
)
_LOST = frozenset(
    {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_GPU_NOT_FOUND}
)
_UNSUPPORTED = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    }
)
_HINTS = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "libnvidia-ml.so.1 is not in the container; run it with NVIDIA's runtime class, "
    "or set gpuSource: simulated",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded on this node",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the library and the loaded driver differ; the node needs a reboot",
    pynvml.NVML_ERROR_NO_PERMISSION: "the agent may not ask that; it runs as root",
}


class NVML:
    """The node's GPUs as its driver sees them."""

    def __init__(self) -> None:
        self._initialized = False

    def discover(self) -> tuple[GPUFacts, ...]:
        """Return the node's GPUs.

        Raises:
            GPUError: they cannot be listed.
        """
        self._initialize()
        with _asking("the number of GPUs"):
            count = pynvml.nvmlDeviceGetCount()
        handles = []
        for index in range(count):
            with _asking(f"GPU {index}"):
                handles.append(pynvml.nvmlDeviceGetHandleByIndex(index))
        uuids = []
        for index, handle in enumerate(handles):
            with _asking(f"the uuid of GPU {index}"):
                uuids.append(pynvml.nvmlDeviceGetUUID(handle))
        peers = _nvlink_peers(handles)
        return tuple(
            self._facts(index, handle, uuids[index], tuple(uuids[peer] for peer in sorted(peers[index])))
            for index, handle in enumerate(handles)
        )

    def read(self, uuid: str) -> GPUReading:
        """Return how a GPU does.

        Raises:
            GPUError: it does not answer as it should.
        """
        self._initialize()
        with _asking(f"GPU {uuid}"):
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        with _asking(f"the memory of GPU {uuid}"):
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
        with _asking(f"the utilization of GPU {uuid}"):
            rates = _supported(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
        processes: dict[int, int] = {}
        for ask in (
            pynvml.nvmlDeviceGetComputeRunningProcesses,
            pynvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            with _asking(f"the processes of GPU {uuid}"):
                found = _supported(partial(ask, handle)) or []
            for process in found:
                # A process that computes and draws is on both lists, with the same figure.
                used_bytes = int(process.usedGpuMemory or 0)
                processes[int(process.pid)] = max(processes.get(int(process.pid), 0), used_bytes)
        return GPUReading(
            used_bytes=int(memory.used),
            utilization_ratio=None if rates is None else rates.gpu / 100,
            process_bytes=processes,
        )

    def _initialize(self) -> None:
        if not self._initialized:
            with _asking("NVML to start"):
                pynvml.nvmlInit()
            self._initialized = True

    @staticmethod
    def _facts(index: int, handle: Any, uuid: str, peers: tuple[str, ...]) -> GPUFacts:
        with _asking(f"GPU {uuid}"):
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
            minor = _supported(lambda: pynvml.nvmlDeviceGetMinorNumber(handle))
            return GPUFacts(
                uuid=uuid,
                index=index,
                model=pynvml.nvmlDeviceGetName(handle),
                memory_bytes=int(memory.total),
                numa_node=_numa_node(handle),
                nvlink_peers=peers,
                device_paths=() if minor is None else (f"/dev/nvidia{minor}",),
            )


def _numa_node(handle: Any, pci_devices: Path = Path("/sys/bus/pci/devices")) -> int | None:
    """Return the NUMA node of the CPUs next to a GPU, from the kernel: NVML's own call is about the GPU's memory as a
    NUMA node, on machines that have that."""
    bus_id = _supported(lambda: pynvml.nvmlDeviceGetPciInfo(handle).busId)
    if bus_id is None:
        return None
    text = bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)
    # NVML writes the PCI domain with eight digits, the kernel with four.
    domain, _, rest = text.lower().partition(":")
    try:
        node = int((pci_devices / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _nvlink_peers(handles: list[Any]) -> list[set[int]]:
    """Return, for each GPU, the indices of those that NVLink reaches, directly or through a switch."""
    peers: list[set[int]] = [set() for _ in handles]
    for first, second in combinations(range(len(handles)), 2):
        with _asking(f"NVLink between GPU {first} and GPU {second}"):
            status = _supported(
                partial(
                    pynvml.nvmlDeviceGetP2PStatus,
                    handles[first],
                    handles[second],
                    pynvml.NVML_P2P_CAPS_INDEX_NVLINK,
                )
            )
        if status == pynvml.NVML_P2P_STATUS_OK:
            peers[first].add(second)
            peers[second].add(first)
    return peers


def _supported(ask: Callable[[], Result]) -> Result | None:
    try:
        return ask()
    except pynvml.NVMLError as error:
        if error.value in _UNSUPPORTED:
            return None
        raise


@contextmanager
def _asking(what: str) -> Iterator[None]:
    """Turn NVML's errors into the agent's."""
    try:
        yield
    except pynvml.NVMLError as error:
        hint = _HINTS.get(error.value)
        text = f"NVML was asked for {what} and answered: {error}{f' ({hint})' if hint else ''}"
        if error.value in _UNAVAILABLE:
            raise DriverUnavailableError(text) from error
        if error.value in _LOST:
            raise GPULostError(text) from error
        raise GPUError(text) from error
