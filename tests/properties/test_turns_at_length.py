"""The invariants of a GPU's turns (tests/unit/node_agent/test_turn_invariants.py) over more steps than the unit tests have time for."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis.stateful import invariant

from tests.properties.at_length import run_at_length
from tests.unit.node_agent.test_turn_invariants import Machine

STEPS = 50_000


class CountingMachine(Machine):
    """Counts the steps of all machines."""

    steps: ClassVar[int] = 0

    @invariant()
    def one_more_step(self) -> None:
        type(self).steps += 1


@pytest.mark.timeout(900)
def test_turns_keep_their_invariants_over_50_000_steps() -> None:
    run_at_length(CountingMachine, STEPS)

    assert CountingMachine.steps >= STEPS
