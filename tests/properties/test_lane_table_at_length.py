"""The safety condition and the other invariants of lane tables, over at least 100,000 changes of tables."""

from __future__ import annotations

import pytest

from tests.properties.at_length import run_at_length
from tests.support.lanes.lane_table_machine import LaneTableMachine

CHANGES = 100_000
PARTS = 4


@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_lane_tables_keep_their_invariants_over_100_000_changes(part: int) -> None:
    wanted = {
        "a tenant came": 500,
        "a tenant was refused": 3000,
        "a tenant was evicted": 300,
        "a tenant moved to another lane": 10,
        "a tenant got its lane later": 200,
        "a paused tenant kept its memory": 2000,
        "a lane was shared": 400,
        "several lanes ran": 700,
        "a restart": 2000,
    }
    run_at_length(LaneTableMachine, "change", CHANGES // PARTS, wanted, part=part)
