"""How much memory the host has left for this container: what must not be exceeded, or the kernel kills the job."""

from __future__ import annotations

import ctypes
from typing import Optional

CGROUPS = "/sys/fs/cgroup"
PROC = "/proc"


def room_bytes(proc: str = PROC, cgroups: str = CGROUPS) -> Optional[int]:
    """The bytes that may still be used: the least of the machine's and of the container's limit; None where neither can be read."""
    rooms = [room for room in (_of_the_machine(proc), _of_the_container(proc, cgroups)) if room is not None]
    return max(0, min(rooms)) if rooms else None


def give_back() -> None:
    """What the C library has kept of freed memory goes back to the system, as far as that is possible (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _of_the_machine(proc: str) -> Optional[int]:
    for line in _read(f"{proc}/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _of_the_container(proc: str, cgroups: str) -> Optional[int]:
    """cgroup v2; files that can be given up count as free."""
    path = next(
        (line[3:] for line in _read(f"{proc}/self/cgroup").splitlines() if line.startswith("0::")), "/"
    )
    folder = f"{cgroups}{path}".rstrip("/")
    limit, used = _read(f"{folder}/memory.max").strip(), _read(f"{folder}/memory.current").strip()
    if not limit.isdigit() or not used.isdigit():
        return None
    files = 0
    for line in _read(f"{folder}/memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == "inactive_file":
            files = int(value)
    return int(limit) - int(used) + files


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
