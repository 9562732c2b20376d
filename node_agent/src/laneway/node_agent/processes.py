"""Processes of the machine: the current boot, when a process started, and its ancestors."""

from __future__ import annotations

from pathlib import Path

_PARENT_FIELD, _START_FIELD = 1, 19
"""``ppid`` and ``starttime`` in /proc/PID/stat, counted from the field after the command's closing bracket
(proc(5): fields 4 and 22)."""


def boot_id(proc: Path = Path("/proc")) -> str:
    """Return an id that changes with every boot."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it has ended."""
    fields = _stat(pid, proc)
    return None if fields is None else fields[1]


def ancestry(pid: int, proc: Path = Path("/proc")) -> tuple[tuple[int, int], ...]:
    """Return a process and its ancestors, the nearest first, each as (pid, start in clock ticks since
    boot). Empty if the process has ended."""
    found: list[tuple[int, int]] = []
    while pid > 0 and all(pid != known for known, _ in found):
        fields = _stat(pid, proc)
        if fields is None:
            break
        found.append((pid, fields[1]))
        pid = fields[0]
    return tuple(found)


def running_pids(proc: Path = Path("/proc")) -> list[int]:
    """Return all processes of the machine."""
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def descendants(pid: int, start_ticks: int, proc: Path = Path("/proc")) -> frozenset[int]:
    """Return the descendants of the process with this pid and start, in clock ticks since boot."""
    return frozenset(each for each in running_pids(proc) if (pid, start_ticks) in ancestry(each, proc)[1:])


def _stat(pid: int, proc: Path) -> tuple[int, int] | None:
    """Return a process's parent and its start."""
    try:
        text = (proc / str(pid) / "stat").read_bytes()  # a process may have any name, not only UTF-8
    except OSError:
        return None
    fields = text.rpartition(b")")[2].split()
    return int(fields[_PARENT_FIELD]), int(fields[_START_FIELD])
