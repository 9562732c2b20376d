"""How much host memory is left to this container. Beyond it, the kernel kills the job."""

from __future__ import annotations

import ctypes
from typing import Optional

CGROUPS = "/sys/fs/cgroup"
PROC = "/proc"


def available_bytes(proc: str = PROC, cgroups: str = CGROUPS) -> Optional[int]:
    """Returns the bytes still available: the minimum of the machine's and the container's; None where neither
    is known."""
    limits = [
        limit
        for limit in (_machine_available(proc), _container_available(proc, cgroups))
        if limit is not None
    ]
    return max(0, min(limits)) if limits else None


def trim_malloc() -> None:
    """Returns memory that the C library has cached to the system, if it can (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _machine_available(proc: str) -> Optional[int]:
    for line in _read(f"{proc}/meminfo").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _container_available(proc: str, cgroups: str) -> Optional[int]:
    """Reads cgroup v2; reclaimable page cache counts as available."""
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
