"""State machines over more steps than the unit tests have time for."""

from __future__ import annotations

import random

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

AT_LENGTH = settings(
    max_examples=300,
    stateful_step_count=100,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def run_at_length(machine: type[RuleBasedStateMachine], steps: int) -> None:
    """Run machines of a class that counts the steps of all (`steps`), until they are so many; each round has other examples.

    Where hypothesis is to try the same examples each time (`CI` is set), these are the same each time, too.
    """
    first = 0 if settings.default.derandomize else random.randrange(2**32)
    round_number = 0
    while machine.steps < steps:
        before = machine.steps
        run_state_machine_as_test(seed(first + round_number)(machine), settings=AT_LENGTH)
        assert machine.steps > before, "the machine makes no step: this loop would not end"
        round_number += 1
    print(f"{machine.steps} steps")
