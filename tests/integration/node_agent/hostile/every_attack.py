"""All attacks on the agent, each a method that goes on for some seconds."""

from __future__ import annotations

import os
import time
from typing import Any

from hostile.connection_attacks import ConnectionAttacks
from hostile.descriptor_attacks import DescriptorAttacks
from hostile.packet_attacks import PacketAttacks
from hostile.turn_attacks import TurnAttacks


class Hostile(PacketAttacks, ConnectionAttacks, TurnAttacks, DescriptorAttacks):
    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.children: list[int] = []

    def give_way(self) -> dict[str, Any]:
        """Run only on otherwise idle CPUs from now on.

        The tests measure what an attack does to the agent, not the CPU load of a busy process, which Kubernetes limits.
        """
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        return {}

    def compute(self, seconds: float) -> dict[str, Any]:
        """Compute only, without an attack, as any busy process does."""
        until = time.monotonic() + seconds
        done = 0
        while time.monotonic() < until:
            done += 1
        return {"done": done, "cut_off": 0}
