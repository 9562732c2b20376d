"""The agent's descriptors, threads and memory: they stay bounded during an attack, and return to their values afterwards."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tests.support.node_agent.node import Node, eventually

_SPARE_BYTES = 48 << 20
"""What Python's allocator may keep of a burst."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """At one moment."""

    descriptors: int
    threads: int
    resident_bytes: int

    @classmethod
    def of(cls, node: Node) -> Footprint:
        """Look at the agent."""
        process = Path(f"/proc/{node.agent_pid}")
        pages = int((process / "statm").read_text(encoding="utf-8").split()[1])
        return cls(
            len(list((process / "fd").iterdir())),
            len(list((process / "task").iterdir())),
            pages * os.sysconf("SC_PAGE_SIZE"),
        )


def comes_back(node: Node, before: Footprint) -> None:
    """Wait until the agent takes no more than before: every descriptor and thread, and memory but for a little."""

    def is_back() -> bool:
        now = Footprint.of(node)
        return (
            now.descriptors <= before.descriptors
            and now.threads <= before.threads
            and now.resident_bytes <= before.resident_bytes + _SPARE_BYTES
        )

    eventually(f"the agent takes no more than before, {before}", is_back)
