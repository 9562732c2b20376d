"""Whether two tenants beside each other show that running in parallel gains something."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.lanes.overlap import Overlap, next_overlap
from laneway.lanes.tenant_use import TenantUse

HOLDER = TenantUse(
    "holder", 0, 60, 10, 0.2, True, 5, 1.0, turn_began_seconds=9.0, turn_ends_seconds=10.1, may_overlap=False
)
NEXT = TenantUse("next", 1, 40, 30, 0.6, False, 5, 1.0, waiting_since_seconds=9.0, may_overlap=True)
ALONE_SECONDS = {"holder": 0.02, "next": 0.02}
OVERLAP = Overlap("next", 1, 10.0, iterations=30, busy_seconds=0.6, alone_seconds=0.02)


def test_the_next_tenant_overlaps_the_end_of_a_turn() -> None:
    assert next_overlap([HOLDER, NEXT], ALONE_SECONDS, 10.0, in_long_turn=True) == OVERLAP


@pytest.mark.parametrize(
    ("story", "holder", "following"),
    [
        ("the turn has just begun", replace(HOLDER, turn_ends_seconds=10.3), NEXT),
        ("an iteration is much of the holder's turn", replace(HOLDER, turn_began_seconds=10.05), NEXT),
        ("too little of the turn is left", replace(HOLDER, turn_ends_seconds=10.03), NEXT),
        ("nobody else wants the turn yet", replace(HOLDER, turn_ends_seconds=None), NEXT),
        ("the holder is between iterations", replace(HOLDER, inside=False), NEXT),
        ("the lane is free", replace(HOLDER, turn_began_seconds=None), NEXT),
        ("two turns run", HOLDER, replace(NEXT, turn_began_seconds=9.0)),
        ("it is not next", HOLDER, replace(NEXT, may_overlap=False)),
        ("its iterations were not measured", HOLDER, replace(NEXT, key="unmeasured")),
    ],
)
def test_no_overlap_begins(story: str, holder: TenantUse, following: TenantUse) -> None:
    assert next_overlap([holder, following], ALONE_SECONDS, 10.0, in_long_turn=True) is None, story


def test_where_no_turn_is_long_enough_an_overlap_begins_in_any() -> None:
    late = replace(HOLDER, turn_ends_seconds=9.9)
    assert next_overlap([late, NEXT], ALONE_SECONDS, 10.0, in_long_turn=False) == OVERLAP


@pytest.mark.parametrize(
    ("story", "use", "at_seconds", "want"),
    [
        ("it is in its turn", replace(NEXT, turn_began_seconds=10.0), 10.03, None),
        ("half as fast, on a full device", replace(NEXT, iterations=31, busy_seconds=0.64), 10.05, False),
        ("as fast as alone", replace(NEXT, iterations=31, busy_seconds=0.62), 10.05, True),
        ("three quarters as fast", replace(NEXT, iterations=33, busy_seconds=0.68), 10.1, True),
        ("it had no turn", NEXT, 10.01, False),
        ("it has left", None, 10.01, False),
        ("it does not yield", replace(NEXT, turn_began_seconds=10.0), 11.2, False),
    ],
)
def test_what_an_overlap_shows(
    story: str, use: TenantUse | None, at_seconds: float, want: bool | None
) -> None:
    assert OVERLAP.gains(use, at_seconds) is want, story


def test_an_iteration_of_any_reported_time_ends_an_overlap_within_seconds() -> None:
    endless = replace(OVERLAP, alone_seconds=1e9)
    assert endless.gains(replace(NEXT, turn_began_seconds=10.0), 32.0) is False
