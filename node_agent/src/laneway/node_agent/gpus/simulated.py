"""GPUs that a file describes, for machines without any. They do what a real one does in what the agent can see.

Memory of a process is what its session reports; utilization is the time that sessions spent inside iterations.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from laneway.api.simulated_gpus import SimulatedGPUs
from laneway.node_agent.clock import Clock
from laneway.node_agent.gpus.protocol import GPUError, GPUFacts, GPUReading

_NAMESPACE: Final = uuid.UUID("6a1f1f3e-6c0b-5d0c-9a53-6c616e657761")
_WINDOW_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class SessionUse:
    """What one session uses of a simulated GPU."""

    pid: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class GPUUse:
    """What all sessions use of a simulated GPU."""

    busy_seconds: float
    """Time inside iterations, of all its sessions since the agent began."""

    sessions: tuple[SessionUse, ...] = ()


def simulated_uuid(node: str, index: int) -> str:
    """Return the uuid of a node's simulated GPU: the same after a restart, different on every node."""
    return f"GPU-{uuid.uuid5(_NAMESPACE, f'{node}/{index}')}"


class SimulatedGPUSource:
    """The GPUs of a profile."""

    def __init__(self, profile: SimulatedGPUs, node: str, clock: Clock) -> None:
        self._profile = profile
        self._node = node
        self._clock = clock
        self._uses: dict[str, deque[tuple[float, float]]] = {}
        self.use_of: Callable[[str], GPUUse] | None = None
        """Tells what the sessions of a GPU use; set once there can be sessions."""

    def discover(self) -> tuple[GPUFacts, ...]:
        """Return the GPUs of the profile."""
        kinds = [kind for kind in self._profile.gpus for _ in range(kind.count)]
        uuids = [simulated_uuid(self._node, index) for index in range(len(kinds))]
        peers: list[set[int]] = [set() for _ in kinds]
        for first, second in self._profile.nvlinks:
            peers[first].add(second)
            peers[second].add(first)
        self._uses = {gpu: deque() for gpu in uuids}
        return tuple(
            GPUFacts(
                uuid=uuids[index],
                index=index,
                model=kind.model,
                memory_bytes=kind.memory_bytes,
                numa_node=kind.numa_node,
                nvlink_peers=tuple(uuids[peer] for peer in sorted(peers[index])),
                simulated=True,
            )
            for index, kind in enumerate(kinds)
        )

    def read(self, uuid: str) -> GPUReading:
        """Return how a GPU does.

        Raises:
            GPUError: the profile has no such GPU.
        """
        if uuid not in self._uses:
            raise GPUError(f"there is no simulated GPU {uuid}; the profile has {', '.join(self._uses)}")
        use = GPUUse(0.0) if self.use_of is None else self.use_of(uuid)
        processes: dict[int, int] = {}
        for session in use.sessions:
            processes[session.pid] = processes.get(session.pid, 0) + session.held_bytes
        return GPUReading(
            used_bytes=sum(processes.values()),
            utilization_ratio=self._utilization_ratio(uuid, use.busy_seconds),
            process_bytes=processes,
        )

    def _utilization_ratio(self, uuid: str, busy_seconds: float) -> float:
        """Return the part of the last seconds spent inside iterations; lanes that run side by side fill it once."""
        now_seconds = self._clock.monotonic()
        samples = self._uses[uuid]
        samples.append((now_seconds, busy_seconds))
        while len(samples) > 2 and samples[1][0] <= now_seconds - _WINDOW_SECONDS:
            samples.popleft()
        elapsed_seconds = now_seconds - samples[0][0]
        if elapsed_seconds <= 0:
            return 0.0
        return min(1.0, max(0.0, (busy_seconds - samples[0][1]) / elapsed_seconds))
