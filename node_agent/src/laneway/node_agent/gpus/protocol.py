"""What the agent needs from GPUs, real or simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class GPUError(Exception):
    """A GPU or the driver does not answer correctly; the text names the request and the answer."""


class DriverUnavailableError(GPUError):
    """There is no usable driver: not loaded, not installed, or of the wrong version."""


class GPULostError(GPUError):
    """The GPU fell off the bus, or needs a reset."""


class GPUHangError(GPUError):
    """The driver did not answer in time."""


@dataclass(frozen=True, slots=True)
class GPUInfo:
    """The constant properties of a GPU."""

    uuid: str
    index: int
    model: str
    memory_bytes: int
    """What processes can allocate together: without what the driver and the firmware keep."""

    numa_node: int | None = None
    nvlink_peers: tuple[str, ...] = ()
    device_paths: tuple[str, ...] = ()
    simulated: bool = False


class Recovery(Enum):
    """The recovery that the driver requests for a GPU."""

    NONE = "nothing"
    DRAIN = "the end of what uses it and its NVLink peers"
    RESET = "a reset"
    REBOOT = "a reboot of the node"


@dataclass(frozen=True, slots=True)
class GPUErrors:
    """A GPU's own error state; None for what it does not report."""

    uncorrected: int | None = None
    """Memory errors that ECC could not correct since the last reset (NVML's volatile count)."""

    remap_failed: bool | None = None
    """A bad row or page of memory could not be replaced, because no spare is left."""

    remap_pending: bool | None = None
    """A bad row or page will be replaced at the next reset; it is unused until then."""

    recovery: Recovery | None = None


@dataclass(frozen=True, slots=True)
class XidEvent:
    """The driver's report of an error on a GPU."""

    uuid: str
    number: int


@dataclass(frozen=True, slots=True)
class GPUReading:
    """The state of a GPU at one moment."""

    used_bytes: int
    utilization_ratio: float | None = None
    """Fraction of the recent time in which it computed; None if the device does not report it (MIG)."""

    process_bytes: Mapping[int, int] = field(default_factory=dict)
    """Memory of each process, by pid in the agent's namespace."""

    process_utilization: Mapping[int, float] | None = None
    """The part of the time since the last reading in which each process computed, by pid; those missing did not. It is sampled,
    and what was sampled may be a second old. None if the GPU or the driver does not report it."""

    errors: GPUErrors = GPUErrors()

    processes_hidden: str = ""
    """Why ``process_bytes`` is unreliable, as a clause; empty if it contains every process."""

    mps_pids: frozenset[int] = frozenset()
    """The processes that are clients of an MPS server."""

    mig: bool = False
    """Whether MIG mode is on: the GPU is divided into instances, which Laneway does not share."""

    exclusive_process: bool = False
    """Whether only one process may use the GPU (compute mode EXCLUSIVE_PROCESS), such as an MPS server."""

    compute_capability: tuple[int, int] | None = None
    """Major and minor version of the GPU's architecture; None if unknown."""

    taken_seconds: float = field(default=0.0, compare=False)
    """CLOCK_MONOTONIC from before the driver was asked; the monitor sets it."""


class GPUSource(Protocol):
    """The source of GPUs."""

    def discover(self) -> tuple[GPUInfo, ...]:
        """Return the node's GPUs, ordered by index.

        Raises:
            GPUError: they cannot be listed.
        """
        ...

    def read(self, uuid: str) -> GPUReading:
        """Read a GPU's state. May block in the driver: call it with a deadline.

        Raises:
            GPUError: it does not answer correctly.
        """
        ...

    def driver_version(self) -> str:
        """Return the version of the node's driver; empty if there is none. May block in the driver: call it with a deadline.

        Raises:
            GPUError: it does not answer correctly.
        """
        ...

    def wait_for_xids(self, timeout_seconds: float) -> tuple[XidEvent, ...]:
        """Return the XIDs within the time, as soon as there is one; empty if none came.

        Called from one thread only, which may block in the driver. GPUs without event support, such as old
        and virtual ones, are omitted.

        Raises:
            GPUError: events are unavailable; the next call starts over.
        """
        ...
