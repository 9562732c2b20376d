"""Waits for the node's GPUs: a driver may be installed, loaded or replaced later.

NVIDIA's container runtime mounts the driver's library when it creates a container. So an agent whose container was created before the
driver, or before an upgrade of the driver, never finds a usable library. It ends, and the kubelet creates its container again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from laneway.node_agent.gpus.protocol import DriverUnavailableError, GPUError, GPUInfo

PAUSE_SECONDS: Final = 10.0
"""Time between two attempts."""

STALE_ATTEMPTS: Final = 6
"""Attempts that find a loaded driver and no usable library, in a row, before the container counts as stale. The kubelet's growing
delay between restarts keeps these rare where no runtime will ever mount the library."""

DRIVER_VERSION_FILE: Final = Path("/proc/driver/nvidia/version")
"""The kernel has it while NVIDIA's driver is loaded; containers see it."""


class StaleContainerError(Exception):
    """The driver is loaded on the node, and this container cannot use it."""


class Report(Protocol):
    """Tells the node and the cluster what the agent waits for."""

    def report(self, reason: str) -> None:
        """Tell why there are no GPUs."""
        ...

    def close(self) -> None:
        """Stop telling."""
        ...


def discover(
    find: Callable[[], tuple[GPUInfo, ...]],
    report: Report,
    stopped: Callable[[float], bool],
    driver_version_file: Path | None = DRIVER_VERSION_FILE,
) -> tuple[GPUInfo, ...] | None:
    """Find the GPUs, retrying until there are some.

    Args:
        find: returns the GPUs.
        report: told why there are none, after each attempt.
        stopped: waits for so many seconds; returns whether to give up. Then the result is None.
        driver_version_file: there while the driver is loaded; None where nobody would create the container again.

    Raises:
        StaleContainerError: the driver is loaded, but only a new container can use it.
        OSError: the HTTP port is taken.
    """
    stale_attempts = 0
    while not stopped(0):
        try:
            gpus = find()
            if gpus:
                report.close()
                return gpus
            reason, unusable = "the driver lists no GPU", False
        except GPUError as error:
            reason, unusable = str(error), isinstance(error, DriverUnavailableError)
        report.report(reason)
        loaded = driver_version_file is not None and driver_version_file.exists()
        stale_attempts = stale_attempts + 1 if unusable and loaded else 0
        if stale_attempts == STALE_ATTEMPTS:
            report.close()
            raise StaleContainerError(f"the driver is loaded on this node, but {reason}")
        if stopped(PAUSE_SECONDS):
            break
    report.close()
    return None
