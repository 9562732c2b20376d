"""The agent's descriptors, threads and memory: they stay bounded during an attack, and return to their values afterwards."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from laneway.node_agent.enforcement.levels import NOT_READ_YET

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

    @classmethod
    def at_rest(cls, node: Node) -> Footprint:
        """Look at the agent once it has read all its GPUs: it starts a thread for each with the first reading."""

        def has_read() -> bool:
            gpus = json.loads((node.root / "run/laneway/inventory.json").read_text())["gpus"]
            return all(NOT_READ_YET not in gpu["enforcement_reason"] for gpu in gpus)

        eventually("each GPU has been read", has_read)
        return cls.of(node)


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
