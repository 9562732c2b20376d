"""What the agent asks of GPUs, whether they are real or simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class GPUError(Exception):
    """A GPU or the driver does not answer as it should; the text says what was asked and what came."""


class DriverUnavailableError(GPUError):
    """There is no driver to ask: not loaded, not installed, or of the wrong version."""


class GPULostError(GPUError):
    """The GPU fell off the bus, or needs a reset."""


class GPUHangError(GPUError):
    """The driver did not answer in time."""


@dataclass(frozen=True, slots=True)
class GPUFacts:
    """What does not change about a GPU."""

    uuid: str
    index: int
    model: str
    memory_bytes: int
    numa_node: int | None = None
    nvlink_peers: tuple[str, ...] = ()
    device_paths: tuple[str, ...] = ()
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class GPUReading:
    """How a GPU does at a moment."""

    used_bytes: int
    utilization_ratio: float | None = None
    """Part of the last moments in which it computed; None where the device does not tell (MIG)."""

    process_bytes: Mapping[int, int] = field(default_factory=dict)
    """Memory of each process, by pid as the agent's namespace counts."""


class GPUSource(Protocol):
    """Where GPUs come from."""

    def discover(self) -> tuple[GPUFacts, ...]:
        """Return the node's GPUs, ordered by index.

        Raises:
            GPUError: they cannot be listed.
        """
        ...

    def read(self, uuid: str) -> GPUReading:
        """Return how a GPU does. May take as long as the driver likes: call it with a deadline.

        Raises:
            GPUError: it does not answer as it should.
        """
        ...
