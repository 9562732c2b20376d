"""The time that processes of a simulated GPU compute, as they report it themselves.

A process that simulates kernels adds their time to a file of its own: 8 bytes, nanoseconds, little-endian. A GPU without
the folder is one whose driver does not report the utilisation of processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_NANOSECONDS: Final = 1_000_000_000


class SimulatedKernels:
    """Reads the files of all GPUs: ``<GPU's index>/<pid>``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: dict[int, tuple[float, Mapping[int, int]]] = {}

    def utilization(self, index: int, now_seconds: float) -> Mapping[int, float] | None:
        """Return the part of the time since the last call in which each process computed."""
        busy_ns = self._busy_ns(self._folder / str(index))
        if busy_ns is None:
            return None
        last_seconds, before_ns = self._last.get(index, (now_seconds, busy_ns))
        self._last[index] = now_seconds, busy_ns
        window_ns = (now_seconds - last_seconds) * _NANOSECONDS
        if window_ns <= 0:
            return {}
        spent_ns = {pid: total_ns - before_ns.get(pid, 0) for pid, total_ns in busy_ns.items()}
        return {pid: min(1.0, ns / window_ns) for pid, ns in spent_ns.items() if ns > 0}

    @staticmethod
    def _busy_ns(folder: Path) -> dict[int, int] | None:
        try:
            files = [file for file in folder.iterdir() if file.name.isdecimal()]
        except FileNotFoundError:
            return None
        return {int(file.name): int.from_bytes(file.read_bytes()[:8], "little") for file in files}
