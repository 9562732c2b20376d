"""The invariants of a GPU's turns (tests/unit/node_agent/test_turn_invariants.py) over more steps than the unit tests have time for."""

from __future__ import annotations

from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from tests.unit.node_agent.test_turn_invariants import Machine

STEPS = 50_000
AT_LENGTH = settings(
    max_examples=300,
    stateful_step_count=100,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class CountingMachine(Machine):
    """Counts the steps of all machines."""

    steps: ClassVar[int] = 0

    @invariant()
    def one_more_step(self) -> None:
        type(self).steps += 1


@pytest.mark.timeout(900)
def test_turns_keep_their_invariants_over_50_000_steps() -> None:
    while CountingMachine.steps < STEPS:
        before = CountingMachine.steps
        run_state_machine_as_test(CountingMachine, settings=AT_LENGTH)
        assert CountingMachine.steps > before, "the machine makes no step: this loop would not end"
    print(f"{CountingMachine.steps} steps")
    assert CountingMachine.steps >= STEPS
