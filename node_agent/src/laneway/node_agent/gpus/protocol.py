"""What the agent asks of GPUs, whether they are real or simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
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


class Recovery(Enum):
    """What the driver says that a GPU needs."""

    NONE = "nothing"
    DRAIN = "the end of what uses it and its NVLink peers"
    RESET = "a reset"
    REBOOT = "a reboot of the node"


@dataclass(frozen=True, slots=True)
class GPUErrors:
    """What a GPU says of its own errors; None wherever it does not tell."""

    uncorrected: int | None = None
    """Memory errors that ECC could not correct since the GPU was reset last (NVML's volatile count)."""

    remap_failed: bool | None = None
    """A bad row or page of its memory could not be replaced: there is no spare left."""

    remap_pending: bool | None = None
    """A bad row or page is replaced at the next reset; until then it is not used."""

    recovery: Recovery | None = None


@dataclass(frozen=True, slots=True)
class XidEvent:
    """The driver's message of an error on a GPU."""

    uuid: str
    number: int


@dataclass(frozen=True, slots=True)
class GPUReading:
    """How a GPU does at a moment."""

    used_bytes: int
    utilization_ratio: float | None = None
    """Part of the last moments in which it computed; None where the device does not tell (MIG)."""

    process_bytes: Mapping[int, int] = field(default_factory=dict)
    """Memory of each process, by pid as the agent's namespace counts."""

    errors: GPUErrors = GPUErrors()

    processes_hidden: str = ""
    """Why ``process_bytes`` cannot be relied on, as a clause; empty where every process is in it with its memory."""

    mps_pids: frozenset[int] = frozenset()
    """Those of the processes that are clients of an MPS server."""

    exclusive_process: bool = False
    """Whether the GPU lets only one process in (compute mode EXCLUSIVE_PROCESS), which an MPS server then is."""


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

    def wait_for_xids(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Return the XIDs that come within the time, as soon as there is one; empty when none came.

        Called from one thread alone, which may be blocked for as long as the driver likes. GPUs that report no events,
        such as old and virtual ones, are not waited for.

        Raises:
            GPUError: events cannot be had; the next call tries anew.
        """
        ...
