"""GPUs described by a file, for machines without any. To the agent they behave like real ones.

The memory of a process is what its session reports. Utilization is the time that sessions spend inside
iterations; that of a process is what it reports itself. The file of faults makes them fail.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from laneway.api.simulated_gpus import SimulatedFault, SimulatedGPUs
from laneway.node_agent.clock import Clock
from laneway.node_agent.gpus.protocol import (
    GPUError,
    GPUErrors,
    GPUInfo,
    GPULostError,
    GPUReading,
    Recovery,
    XidEvent,
)
from laneway.node_agent.gpus.simulated_faults import FaultsFile
from laneway.node_agent.gpus.simulated_kernels import SimulatedKernels

_NAMESPACE: Final = uuid.UUID("6a1f1f3e-6c0b-5d0c-9a53-6c616e657761")
_WINDOW_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.1
_RECOVERY: Final = {
    "none": Recovery.NONE,
    "drain": Recovery.DRAIN,
    "reset": Recovery.RESET,
    "reboot": Recovery.REBOOT,
}


@dataclass(frozen=True, slots=True)
class SessionUse:
    """One session's use of a simulated GPU."""

    pid: int
    held_bytes: int
    pod: str = ""
    """``namespace/name``."""


@dataclass(frozen=True, slots=True)
class GPUUse:
    """All sessions' use of a simulated GPU."""

    busy_seconds: float
    """Time inside iterations, of all its sessions since the agent started."""

    sessions: tuple[SessionUse, ...] = ()


def simulated_uuid(node: str, index: int) -> str:
    """Return the uuid of a node's simulated GPU: stable over restarts, and different on every node."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"


class SimulatedGPUSource:
    """The GPUs of a profile."""

    def __init__(
        self,
        profile: SimulatedGPUs,
        node: str,
        clock: Clock,
        faults: FaultsFile,
        kernels: SimulatedKernels,
    ) -> None:
        self._profile = profile
        self._node = node
        self._clock = clock
        self._faults = faults
        self._kernels = kernels
        self._uuids: tuple[str, ...] = ()
        self._external_bytes: dict[str, int] = {}
        self._uses: dict[str, deque[tuple[float, float]]] = {}
        self.use_of: Callable[[str], GPUUse] | None = None
        """Returns the use of a GPU by its sessions; set once there can be sessions."""

    def discover(self) -> tuple[GPUInfo, ...]:
        """Return the GPUs of the profile."""
        kinds = [kind for kind in self._profile.gpus for _ in range(kind.count)]
        paths = [kind.device_paths[n : n + 1] for kind in self._profile.gpus for n in range(kind.count)]
        uuids = [simulated_uuid(self._node, index) for index in range(len(kinds))]
        peers: list[set[int]] = [set() for _ in kinds]
        for first, second in self._profile.nvlinks:
            peers[first].add(second)
            peers[second].add(first)
        self._uses = {gpu: deque() for gpu in uuids}
        self._uuids = tuple(uuids)
        return tuple(
            GPUInfo(
                uuid=uuids[index],
                index=index,
                model=kind.model,
                memory_bytes=kind.memory_bytes,
                numa_node=kind.numa_node,
                nvlink_peers=tuple(uuids[peer] for peer in sorted(peers[index])),
                device_paths=paths[index],
                simulated=True,
            )
            for index, kind in enumerate(kinds)
        )

    def read(self, uuid: str) -> GPUReading:
        """Read a GPU's state. While its fault is to hang, this does not return.

        Raises:
            GPUError: the profile has no such GPU, or it is lost.
        """
        if uuid not in self._uses:
            raise GPUError(f"there is no simulated GPU {uuid}; the profile has {', '.join(self._uses)}")
        index = self._uuids.index(uuid)
        fault = self._faults.of(index)
        while fault.hangs:
            time.sleep(_POLL_SECONDS)
            fault = self._faults.of(index)
        if fault.lost:
            raise GPULostError(f"the simulated GPU {uuid} fell off the bus")
        use = GPUUse(0.0) if self.use_of is None else self.use_of(uuid)
        processes = _process_bytes(use, fault)
        computing = self._kernels.utilization(index, self._clock.monotonic())
        for pid in computing or ():
            processes.setdefault(pid, 0)
        reported_bytes = sum(session.held_bytes for session in use.sessions)
        self._external_bytes[uuid] = max(0, sum(processes.values()) - reported_bytes)
        return GPUReading(
            used_bytes=sum(processes.values()),
            utilization_ratio=self._utilization_ratio(uuid, use.busy_seconds),
            process_bytes=processes,
            process_utilization=computing,
            mig=fault.mig,
            errors=GPUErrors(
                fault.uncorrected_errors, fault.remap_failed, fault.remap_pending, _RECOVERY[fault.recovery]
            ),
        )

    def external_bytes(self, uuid: str) -> int:
        """Return the memory that the last reading showed beyond the sessions' reports. May be called from
        any thread."""
        return self._external_bytes.get(uuid, 0)

    def driver_version(self) -> str:
        """Return nothing: there is no driver."""
        return ""

    def wait_for_xids(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Return the XIDs that appear in the file of faults within the time, as soon as there is one."""
        deadline_seconds = time.monotonic() + timeout_seconds
        while True:
            found = self._faults.take_xids()
            if found or time.monotonic() >= deadline_seconds:
                break
            time.sleep(_POLL_SECONDS)
        return tuple(
            XidEvent(self._uuids[index], number) for index, number in found if index < len(self._uuids)
        )

    def _utilization_ratio(self, uuid: str, busy_seconds: float) -> float:
        """Return the fraction of recent time spent inside iterations; parallel lanes count once."""
        now_seconds = self._clock.monotonic()
        samples = self._uses[uuid]
        samples.append((now_seconds, busy_seconds))
        while len(samples) > 2 and samples[1][0] <= now_seconds - _WINDOW_SECONDS:
            samples.popleft()
        elapsed_seconds = now_seconds - samples[0][0]
        if elapsed_seconds <= 0:
            return 0.0
        return min(1.0, max(0.0, (busy_seconds - samples[0][1]) / elapsed_seconds))


def _process_bytes(use: GPUUse, fault: SimulatedFault) -> dict[int, int]:
    processes: dict[int, int] = {}
    first_of_pod: dict[str, int] = {}
    for session in use.sessions:
        processes[session.pid] = processes.get(session.pid, 0) + session.held_bytes
        first_of_pod.setdefault(session.pod, session.pid)
    for pod, extra_bytes in fault.extra_bytes_by_pod.items():
        if pod in first_of_pod:
            processes[first_of_pod[pod]] += extra_bytes
    return processes | fault.process_bytes
