"""What the agent's process has cost so far, by the kernel's own accounting."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AgentCost:
    """Since its start, or between two moments."""

    cpu_seconds: float
    """User and system time of all its threads."""

    resident_bytes: int
    """Memory at the moment, or its growth."""

    @classmethod
    def of(cls, pid: int) -> AgentCost:
        """Read it."""
        # The name, in brackets, may hold anything; the fields after it are counted from "state", the third.
        after_name = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        ticks = int(after_name[11]) + int(after_name[12])
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
        return cls(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE"))

    def __sub__(self, earlier: AgentCost) -> AgentCost:
        return AgentCost(self.cpu_seconds - earlier.cpu_seconds, self.resident_bytes - earlier.resident_bytes)
