"""The safety condition, and all else that holds of lane tables, over at least 100,000 changes of tables."""

from __future__ import annotations

import pytest

from tests.properties.at_length import run_at_length
from tests.unit.core.lanes.lane_table_machine import LaneTableMachine

STEPS = 100_000


class CountingMachine(LaneTableMachine):
    """Counts its own steps."""


@pytest.mark.timeout(900)
def test_lane_tables_keep_their_invariants_over_100_000_changes() -> None:
    run_at_length(CountingMachine, STEPS)

    assert CountingMachine.steps >= STEPS
