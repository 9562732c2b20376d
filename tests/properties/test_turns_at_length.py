"""The invariants of a GPU's turns (tests/support/node_agent/turn_machine.py) over more steps than the unit tests have time for."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest
from hypothesis.stateful import invariant

from tests.properties.at_length import run_at_length
from tests.support.node_agent.gpu_bench import Process
from tests.support.node_agent.turn_machine import Machine

STEPS = 50_000
PARTS = 4


class CountingMachine(Machine):
    """Counts steps, and the messages that processes get."""

    happened: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.came: list[Process] = []

    def started(self, process: Process) -> Process:
        self.came.append(process)
        return super().started(process)

    @invariant()
    def one_more_step(self) -> None:
        self.happened["step"] += 1

    def teardown(self) -> None:
        super().teardown()
        self.happened.update(str(message[0]) for process in self.came for message in process.channel.sent)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_turns_keep_their_invariants_over_50_000_steps(part: int) -> None:
    wanted = {"grant": 50, "yield": 5, "pause": 200, "resume": 50, "offload": 100, "restore": 20}
    run_at_length(CountingMachine, "step", STEPS // PARTS, wanted, part=part)
