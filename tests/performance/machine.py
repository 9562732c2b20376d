"""What machine a figure was measured on, and how busy it was."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine at a moment."""

    date: str
    processor: str
    cores: int
    memory_gib: float
    system: str
    python: str
    load_1_minute: float
    """Load average: on a quiet machine well below 1."""


def this_machine() -> Machine:
    """Return the machine that this runs on, as it is now."""
    return Machine(
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        processor=_of_file("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        cores=os.cpu_count() or 0,
        memory_gib=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        load_1_minute=round(os.getloadavg()[0], 2),
    )


def _of_file(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
