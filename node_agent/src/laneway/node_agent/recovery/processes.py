"""Processes of the machine: which boot this is, and when a process started."""

from __future__ import annotations

from pathlib import Path

_START_FIELD = 19
"""``starttime`` in /proc/PID/stat, counted from the field after the command's closing bracket (proc(5): field 22)."""


def boot_id(proc: Path = Path("/proc")) -> str:
    """Return what is different after every boot."""
    return (proc / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is no more."""
    try:
        text = (proc / str(pid) / "stat").read_bytes()  # a process may give itself any name, not only UTF-8
    except OSError:
        return None
    return int(text.rpartition(b")")[2].split()[_START_FIELD])
