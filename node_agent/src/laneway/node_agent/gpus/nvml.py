"""Real GPUs, through NVML (the module ``pynvml`` of the package ``nvidia-ml-py``).

API reference: https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import pynvml
from laneway.node_agent.gpus.nvml_calls import supported, translated_errors
from laneway.node_agent.gpus.nvml_errors import read_errors
from laneway.node_agent.gpus.nvml_events import XidEvents
from laneway.node_agent.gpus.nvml_processes import read_processes
from laneway.node_agent.gpus.nvml_utilization import read_utilization
from laneway.node_agent.gpus.protocol import GPUInfo, GPULostError, GPUReading, XidEvent

_log = logging.getLogger(__name__)


class NVML:
    """The node's GPUs as the driver lists them."""

    def __init__(self) -> None:
        self._initialized = False
        self._xids = XidEvents()
        self._sampled_us: dict[str, int] = {}
        """The time of each GPU's newest sample of its processes' utilisation."""

    def discover(self) -> tuple[GPUInfo, ...]:
        """Return the node's GPUs without lost ones: a GPU that fell off the bus must not affect the
        others.

        Raises:
            GPUError: they cannot be listed.
        """
        self._initialize()
        with translated_errors("the number of GPUs"):
            count = pynvml.nvmlDeviceGetCount()
        handles: dict[int, Any] = {}
        uuids: dict[int, str] = {}
        for index in range(count):
            try:
                with translated_errors(f"GPU {index}"):
                    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                    uuids[index] = pynvml.nvmlDeviceGetUUID(handle)
            except GPULostError as error:
                _log.error("%s", error)
                continue
            handles[index] = handle
        peers = _nvlink_peers(handles)
        return tuple(
            self._gpu_info(index, handle, uuids[index], tuple(uuids[peer] for peer in sorted(peers[index])))
            for index, handle in handles.items()
        )

    def read(self, uuid: str) -> GPUReading:
        """Read a GPU's state.

        Raises:
            GPUError: it does not answer correctly.
        """
        self._initialize()
        with translated_errors(f"GPU {uuid}"):
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        with translated_errors(f"the memory of GPU {uuid}"):
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
        with translated_errors(f"the utilization of GPU {uuid}"):
            rates = supported(lambda: pynvml.nvmlDeviceGetUtilizationRates(handle))
        with translated_errors(f"the compute mode of GPU {uuid}"):
            mode = supported(lambda: pynvml.nvmlDeviceGetComputeMode(handle))
        with translated_errors(f"the MIG mode of GPU {uuid}"):
            mig = supported(lambda: pynvml.nvmlDeviceGetMigMode(handle))
        with translated_errors(f"the compute capability of GPU {uuid}"):
            capability = supported(lambda: pynvml.nvmlDeviceGetCudaComputeCapability(handle))
        with translated_errors(f"the processes of GPU {uuid}"):
            processes = read_processes(handle)
        with translated_errors(f"the utilization of the processes of GPU {uuid}"):
            utilization = read_utilization(handle, self._sampled_us.get(uuid, 0))
        self._sampled_us[uuid] = utilization.newest_us
        with translated_errors(f"the errors of GPU {uuid}"):
            errors = read_errors(handle)
        return GPUReading(
            used_bytes=int(memory.used),
            utilization_ratio=None if rates is None else rates.gpu / 100,
            process_bytes=processes.used_bytes,
            process_utilization=utilization.by_pid,
            errors=errors,
            processes_hidden=processes.hidden,
            mps_pids=processes.mps_pids,
            mig=mig is not None and mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
            exclusive_process=mode == pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS,
            compute_capability=None if capability is None else (int(capability[0]), int(capability[1])),
        )

    def driver_version(self) -> str:
        """Return the driver's version, such as ``570.86.15``.

        Raises:
            GPUError: NVML does not answer correctly.
        """
        self._initialize()
        with translated_errors("the driver's version"):
            return str(pynvml.nvmlSystemGetDriverVersion())

    def wait_for_xids(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Return the next XID, or nothing if none came in time.

        Raises:
            GPUError: NVML failed; the next call starts over.
        """
        self._initialize()
        return self._xids.wait(timeout_seconds)

    def _initialize(self) -> None:
        if not self._initialized:
            with translated_errors("NVML to start"):
                pynvml.nvmlInit()
            self._initialized = True

    @staticmethod
    def _gpu_info(index: int, handle: Any, uuid: str, peers: tuple[str, ...]) -> GPUInfo:
        with translated_errors(f"GPU {uuid}"):
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle, pynvml.nvmlMemory_v2)
            minor = supported(lambda: pynvml.nvmlDeviceGetMinorNumber(handle))
            return GPUInfo(
                uuid=uuid,
                index=index,
                model=pynvml.nvmlDeviceGetName(handle),
                # As CUDA itself counts: what the driver and the firmware keep is no job's.
                memory_bytes=int(memory.total) - int(memory.reserved),
                numa_node=_numa_node(handle),
                nvlink_peers=peers,
                device_paths=() if minor is None else (f"/dev/nvidia{minor}",),
            )


def _numa_node(handle: Any, pci_devices: Path = Path("/sys/bus/pci/devices")) -> int | None:
    """Return the NUMA node of the CPUs next to a GPU, from the kernel. NVML's own call describes GPU
    memory as a NUMA node."""
    bus_id = supported(lambda: pynvml.nvmlDeviceGetPciInfo(handle).busId)
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


def _nvlink_peers(handles: Mapping[int, Any]) -> dict[int, set[int]]:
    """Return, for each GPU, the indices of its NVLink peers, direct or through a switch."""
    peers: dict[int, set[int]] = {index: set() for index in handles}
    for first, second in combinations(handles, 2):
        with translated_errors(f"NVLink between GPU {first} and GPU {second}"):
            status = supported(
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
