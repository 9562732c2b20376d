"""The account of one container's memory on one GPU, exact to the byte: what each of its processes has reserved.

A process reserves before the driver allocates, and releases after the driver has freed. A reservation is granted as a whole or
not at all. So the container never has more than its quota, with two exceptions that no refusal can undo: what a process says it
holds already (:meth:`MemoryAccount.hold`), and its framework's own memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class _Process:
    """What one process has."""

    start_ticks: int
    reserved_bytes: int = 0
    framework_bytes: int | None = None
    """Charged for its framework; None: nothing was charged yet."""

    @property
    def used_bytes(self) -> int:
        return self.reserved_bytes + (self.framework_bytes or 0)


@dataclass(slots=True)
class MemoryAccount:
    """The reservations of one container on one GPU. Processes are named by their pids."""

    quota_bytes: int
    used_bytes: int = 0
    """What all processes have together."""

    refusals: int = 0
    """Reservations that were refused."""

    _processes: dict[int, _Process] = field(default_factory=dict)

    @property
    def processes(self) -> frozenset[int]:
        """Return the processes that keep this account."""
        return frozenset(self._processes)

    def enter(self, process: int, start_ticks: int = 0) -> None:
        """Add a process, with nothing. If it is there already, it starts over.

        Args:
            process: its pid.
            start_ticks: when it started, in clock ticks since boot; 0 if unknown.
        """
        self.leave(process)
        self._processes[process] = _Process(start_ticks)

    def leave(self, process: int) -> None:
        """Remove a process with all that it has. An unknown one is ignored."""
        gone = self._processes.pop(process, None)
        if gone is not None:
            self.used_bytes -= gone.used_bytes

    def charge_framework(self, process: int, size_bytes: int) -> None:
        """Charge a process once for its framework's own memory. It is there anyway, so it is never refused."""
        found = self._processes[process]
        if found.framework_bytes is None:
            found.framework_bytes = size_bytes
            self.used_bytes += size_bytes

    def reserve(self, process: int, size_bytes: int) -> bool:
        """Reserve bytes for a process. Return False, and change nothing, if the quota does not hold them all."""
        if size_bytes > 0 and self.used_bytes + size_bytes > self.quota_bytes:
            self.refusals += 1
            return False
        self._processes[process].reserved_bytes += size_bytes
        self.used_bytes += size_bytes
        return True

    def release(self, process: int, size_bytes: int) -> None:
        """Give bytes back, at most what the process has reserved."""
        found = self._processes[process]
        given_bytes = min(size_bytes, found.reserved_bytes)
        found.reserved_bytes -= given_bytes
        self.used_bytes -= given_bytes

    def hold(self, process: int, size_bytes: int) -> None:
        """Replace what a process has reserved by what it says it holds."""
        found = self._processes[process]
        self.used_bytes += size_bytes - found.reserved_bytes
        found.reserved_bytes = size_bytes

    def start_ticks_of(self, process: int) -> int:
        """Return when a process of this account started, as it was told at :meth:`enter`."""
        return self._processes[process].start_ticks

    def reserved_by(self, process: int) -> int:
        """Return what a process has reserved; 0 for an unknown one."""
        found = self._processes.get(process)
        return 0 if found is None else found.reserved_bytes

    def used_by(self, process: int) -> int:
        """Return what a process has with its framework's memory; 0 for an unknown one."""
        found = self._processes.get(process)
        return 0 if found is None else found.used_bytes
