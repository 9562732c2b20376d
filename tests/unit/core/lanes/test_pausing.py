"""Pausing and resuming a tenant: what the table then says of it."""

from __future__ import annotations

import pytest
from laneway.lanes import LaneTable, RefusalReason

from tests.unit.core.lanes.builders import known, lanes, table_of

RUNS = table_of(100, known("a", 10, 20))
WAITS = table_of(30, known("b", 10, 20), known("a", 10, 20))


@pytest.mark.parametrize("table", [RUNS, WAITS], ids=["it runs", "it waits"])
def test_a_paused_tenant_waits_with_a_refusal_that_names_it(table: LaneTable) -> None:
    outcome = table.pause("a")
    assert outcome.refusal is not None
    assert (outcome.refusal.reason, outcome.refusal.message) == (RefusalReason.PAUSED, "it is paused")
    (entry,) = (entry for entry in outcome.table.waiting if entry.tenant.key == "a")
    assert entry.refusal == outcome.refusal
    assert entry.holds_memory is (table is RUNS)


def test_resuming_a_tenant_that_runs_changes_nothing() -> None:
    outcome = RUNS.resume("a")
    assert outcome.table is RUNS
    assert (outcome.lane_changes, outcome.refusal, outcome.evict) == ((), None, False)


def test_a_resumed_tenant_that_fits_has_its_lane_again() -> None:
    outcome = RUNS.pause("a").table.resume("a")
    assert lanes(outcome) == ["a"]
    assert outcome.table.waiting == ()


def test_a_resumed_tenant_that_does_not_fit_waits_and_is_no_longer_paused() -> None:
    outcome = WAITS.pause("a").table.resume("a")
    (entry,) = outcome.table.waiting
    assert entry.paused is False
    assert outcome.refusal is not None
    assert outcome.refusal.reason is not RefusalReason.PAUSED


def test_the_ephemeral_memory_of_a_tenant_without_a_lane_does_not_count_in_a_refusal() -> None:
    table = table_of(100, known("a", 40, 50)).pause("a").table
    refusal = table.admit(known("b", 30, 40)).refusal
    assert refusal is not None
    assert refusal.lacking_bytes == 10, "40 held by a, 70 needed by b, 100 there"
