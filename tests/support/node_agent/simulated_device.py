"""One device's time, divided between the processes of a simulated GPU, as a GPU slices time between processes.

Each process queues its kernels slice by slice on one timeline in a file, and sleeps until they are done. So processes
that compute at the same time take slices in turn, and together get one device's throughput. For the client this is a
training thread that waits for its device. Only processes that are given the file contend.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SLICE_NS: Final = 2_000_000
"""About the time slice of a GPU between processes."""

_WORD: Final = 8
_FREE_FROM, _OWNER, _IDLE_WITHIN, _IDLE_BETWEEN, _WORDS = range(5)


@dataclass(frozen=True, slots=True)
class DeviceIdleTime:
    """For how long nothing was queued on a device, in total."""

    within_ns: int
    """Until the process that had it last queued more."""

    between_ns: int
    """Until another process queued something."""


class SimulatedDevice:
    """A process's access to the device."""

    def __init__(self, file: Path, kernels: Path | None = None) -> None:
        """Open the device; the file is created if it does not exist.

        Args:
            file: the same for all processes of one GPU.
            kernels: the folder where the agent reads which processes of the GPU compute (``simulated-kernels/INDEX``); None: it
                learns nothing of this process.
        """
        self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._descriptor, _WORDS * _WORD)
        self._words = memoryview(mmap.mmap(self._descriptor, _WORDS * _WORD)).cast("Q")
        self._busy_ns = memoryview(bytearray(_WORD)).cast("Q")
        if kernels is not None:
            kernels.mkdir(parents=True, exist_ok=True)
            with (kernels / str(os.getpid())).open("w+b") as own:
                own.truncate(_WORD)
                self._busy_ns = memoryview(mmap.mmap(own.fileno(), _WORD)).cast("Q")

    def run(self, seconds: float) -> None:
        """Run kernels that take the device for this long, and return when they are done."""
        left_ns, queued_ns = round(seconds * 1e9), time.monotonic_ns()
        while left_ns > 0:
            slice_ns = min(left_ns, SLICE_NS)
            # The kernels of one call are queued together: a slice follows the last one even if this process woke up late.
            queued_ns = self._reserve(queued_ns, slice_ns)
            left_ns -= slice_ns
            time.sleep(max(0, queued_ns - time.monotonic_ns()) / 1e9)
            self._busy_ns[0] += slice_ns

    @property
    def idle(self) -> DeviceIdleTime:
        """Return for how long nothing was queued so far."""
        return DeviceIdleTime(self._words[_IDLE_WITHIN], self._words[_IDLE_BETWEEN])

    def _reserve(self, not_before_ns: int, slice_ns: int) -> int:
        """Take the device's next free slice; return its end (CLOCK_MONOTONIC). A process that ends meanwhile leaves no lock."""
        words, process = self._words, os.getpid()
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            free_from_ns = words[_FREE_FROM]
            begin_ns = max(not_before_ns, free_from_ns)
            if words[_OWNER]:
                words[_IDLE_WITHIN if words[_OWNER] == process else _IDLE_BETWEEN] += begin_ns - free_from_ns
            words[_OWNER] = process
            words[_FREE_FROM] = begin_ns + slice_ns
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return begin_ns + slice_ns
