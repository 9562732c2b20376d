"""What a process has used of the machine, from ``/proc``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Since the process began."""

    cpu_seconds: float
    memory_mib: float
    peak_memory_mib: float
    written_mib: float
    """To disk."""


def figures_of_process(pid: int) -> ProcessFigures:
    """Return what a process has used so far, all of its threads together."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    sizes = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return ProcessFigures(
        cpu_seconds=(int(stat[11]) + int(stat[12])) / _TICKS,
        memory_mib=int(sizes["VmRSS"].split()[0]) * 1024 / _MIB,
        peak_memory_mib=int(sizes["VmHWM"].split()[0]) * 1024 / _MIB,
        written_mib=int(io["write_bytes"]) / _MIB,
    )
