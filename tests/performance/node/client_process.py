"""A process in a container that takes turns with the real client, driven line by line like the bare one of the integration tests.

JSON commands on standard input, JSON answers on standard output. An iteration's GPU time is simulated: the process sleeps
inside it, as a training thread does that waits for the device. With a simulated device, processes that compute at the same time
slow each other.
"""

from __future__ import annotations

import math
import os
import time
from pathlib import Path
from time import monotonic_ns
from typing import Any

from laneway.client.memory.meter import NoMeter
from laneway.client.reporting.profile import FIRST_REPORT_ITERATIONS
from laneway.client.runtime import client
from laneway.client.script_api import iteration
from laneway.client.session.shared_page import TAKEN, TURN

from tests.support.node_agent.command_loop import answer_commands
from tests.support.node_agent.simulated_device import SimulatedDevice

FOLDER = "/run/laneway"


class FixedMeter(NoMeter):
    """A device on which every iteration uses the same memory."""

    def __init__(self, persistent_bytes: int, ephemeral_bytes: int) -> None:
        self._measured = (persistent_bytes, persistent_bytes + ephemeral_bytes)

    def end(self) -> tuple[int, int]:
        """An iteration has ended."""
        return self._measured


class Trainer:
    """The commands of the process. All clock values are CLOCK_MONOTONIC, in nanoseconds."""

    def open(self, persistent_mib: int = 1, ephemeral_mib: int = 5, measured: bool = True) -> dict[str, Any]:
        """Open the session and run until the agent knows what an iteration needs, if that is measured.

        Until then the session counts with all of its share, and others may have to wait for that.
        """
        meter = FixedMeter(persistent_mib << 20, ephemeral_mib << 20) if measured else NoMeter()
        client().start("", "cpu", meter)
        self.train(iteration_seconds=0.001, iterations=FIRST_REPORT_ITERATIONS)
        return {"has_agent": client().guard.session.has_agent}

    def train(
        self,
        iteration_seconds: float,
        gap_seconds: float = 0.0,
        iterations: int = 0,
        seconds: float = math.inf,
        device: str = "",
    ) -> dict[str, Any]:
        """Run iterations with gaps between them, for a number or for a time.

        Args:
            iteration_seconds: the GPU time of an iteration.
            gap_seconds: the time between two iterations.
            iterations: how many; 0: as many as the time allows.
            seconds: for how long.
            device: the file of the device that the iterations run on; empty: one that no other process uses.

        Returns:
            ``turns``: for each turn its number, when its first iteration began and its last one ended, and how many it had;
            ``iteration_ends_ns``; ``began_ns`` and ``ended_ns`` of the whole.
        """
        guard = client().guard
        compute = SimulatedDevice(Path(device)).run if device else time.sleep
        ends_ns: list[int] = []
        turns: list[list[int]] = []
        done = 0
        came_ns = monotonic_ns()
        until_ns = came_ns + seconds * 1e9
        while (not iterations or done < iterations) and monotonic_ns() < until_ns:
            guard.begin()
            began_ns = monotonic_ns()
            turn = guard.session.words[TURN] or guard.session.words[TAKEN]
            compute(iteration_seconds)
            ended_ns = monotonic_ns()
            guard.end()
            ends_ns.append(ended_ns)
            done += 1
            if turns and turns[-1][0] == turn:
                turns[-1][2] = ended_ns
                turns[-1][3] += 1
            else:
                turns.append([turn, began_ns, ended_ns, 1])
            if gap_seconds:
                time.sleep(gap_seconds)
        return {
            "turns": turns,
            "iteration_ends_ns": ends_ns,
            "began_ns": came_ns,
            "ended_ns": monotonic_ns(),
        }

    def time_gate(self, times: int) -> dict[str, Any]:
        """Time boundaries, each the end of an iteration and the beginning of the next, less the loop around them."""
        guard = client().guard
        bare_ns = monotonic_ns()
        for _ in range(times):
            pass
        began_ns = monotonic_ns()
        for _ in range(times):
            guard.begin()
            guard.end()
        ended_ns = monotonic_ns()
        return {"nanoseconds": (ended_ns - began_ns - (began_ns - bare_ns)) / times}

    def time_block(self, times: int) -> dict[str, Any]:
        """Time boundaries of a script that marks its iterations with ``laneway.client.iteration()``."""
        began_ns = monotonic_ns()
        for _ in range(times):
            with iteration():
                pass
        return {"nanoseconds": (monotonic_ns() - began_ns) / times}


def main() -> None:
    """Answer commands until there are no more."""
    os.environ["LANEWAY_DIR"] = FOLDER
    answer_commands(Trainer())


if __name__ == "__main__":
    main()
