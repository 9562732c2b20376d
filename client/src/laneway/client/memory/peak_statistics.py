"""Peaks of PyTorch's CUDA allocator, kept apart for Laneway and for the script.

The allocator has one peak of each kind, which both reset: the client at each measured iteration, the script
when it wants to know what a part of it needs. So the two functions of PyTorch through which all others read
and reset the peaks are replaced. Each side sees the peaks since its own last reset.
"""

from __future__ import annotations

from typing import Any


class PeakStatistics:
    """The peaks of all devices."""

    def __init__(self, private: Any) -> None:
        """Replaces the functions.

        Args:
            private: the module `torch._C`.
        """
        self._read = private._cuda_memoryStats
        self._reset = private._cuda_resetPeakMemoryStats
        self._script_peaks: dict[int, dict[str, Any]] = {}
        """By device, the statistics before the client's resets, with the highest peaks since the script's."""
        self._own_peak_bytes: dict[int, int] = {}
        """By device, the most allocated since the client's last reset, before the script's resets."""
        private._cuda_memoryStats = self._read_for_script
        private._cuda_resetPeakMemoryStats = self._reset_for_script

    def restart(self, device: int) -> tuple[int, int]:
        """Begins a new peak of the client.

        Returns:
            The bytes allocated, and the most since the last call.
        """
        found = self._allocated(device)
        stats = self._read_for_script(device)
        self._script_peaks[device] = stats
        self._own_peak_bytes.pop(device, None)
        self._reset(device)
        return found

    def _allocated(self, device: int) -> tuple[int, int]:
        allocated = self._read(device)["allocated_bytes"]["all"]
        return allocated["current"], max(allocated["peak"], self._own_peak_bytes.get(device, 0))

    def _read_for_script(self, device: int) -> dict[str, Any]:
        stats: dict[str, Any] = self._read(device)
        _raise_peaks(stats, self._script_peaks.get(device, {}))
        return stats

    def _reset_for_script(self, device: int) -> None:
        self._own_peak_bytes[device] = self._allocated(device)[1]
        self._script_peaks.pop(device, None)
        self._reset(device)


def _raise_peaks(stats: dict[str, Any], earlier: dict[str, Any]) -> None:
    """Raises the peaks of nested statistics to earlier ones."""
    for name, value in stats.items():
        before = earlier.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            _raise_peaks(value, before)
        elif name == "peak" and before is not None:
            stats[name] = max(value, before)
