"""The safety condition, and all else that holds of lane tables, over at least 100,000 changes of tables."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.unit.core.lanes.lane_table_machine import LaneTableMachine

STEPS = 100_000
AT_LENGTH = settings(
    max_examples=620,
    stateful_step_count=100,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


class CountingMachine(LaneTableMachine):
    """Counts its own steps."""


@pytest.mark.timeout(900)
def test_lane_tables_keep_their_invariants_over_100_000_changes() -> None:
    while CountingMachine.steps < STEPS:
        before = CountingMachine.steps
        run_state_machine_as_test(CountingMachine, settings=AT_LENGTH)
        assert CountingMachine.steps > before, "the machine makes no change: this loop would not end"
    print(f"{CountingMachine.steps} changes of lane tables")
    assert CountingMachine.steps >= STEPS
