"""What counts of the memory that is seen of a tenant, whatever it reports."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from laneway.lanes import LaneRules, SeenMemory, counted_ephemeral_bytes, counted_persistent_bytes
from laneway.lanes.seen_memory import RECENT_SECONDS

from tests.unit.core.lanes.builders import EXACT, known, lanes, table_of, unknown

LOOKS = st.lists(st.tuples(st.integers(0, 100), st.floats(0.1, 20), st.booleans(), st.booleans()), min_size=1)


@given(LOOKS)
def test_no_less_counts_than_the_last_look_showed(looks: list[tuple[int, float, bool, bool]]) -> None:
    seen, now = SeenMemory(), 0.0
    for held, pause, between_turns, has_lane in looks:
        now += pause
        seen = seen.after(held, now, between_turns=between_turns, has_lane=has_lane)
        assert seen.occupied_bytes >= held
        assert seen.resident_bytes >= held or not between_turns
        if not has_lane:
            assert seen.occupied_bytes == held


@given(
    quota=st.integers(0, 100),
    reported=st.tuples(st.integers(0, 100), st.integers(0, 100)),
    resident=st.integers(0, 120),
    occupied=st.integers(0, 120),
    padding=st.integers(0, 10),
)
def test_a_report_never_makes_a_tenant_count_less_than_what_is_seen_of_it(
    quota: int, reported: tuple[int, int], resident: int, occupied: int, padding: int
) -> None:
    rules = LaneRules(padding_percent=padding)
    counted = known("a", *reported, quota=quota, seen=SeenMemory(resident, occupied))
    persistent, ephemeral = counted_persistent_bytes(counted, rules), counted_ephemeral_bytes(counted, rules)
    assert persistent >= min(resident, quota)
    assert persistent + ephemeral >= min(max(resident, occupied), quota)
    assert persistent + ephemeral <= quota
    honest = known("a", *reported, quota=quota)
    assert persistent >= counted_persistent_bytes(honest, rules)


def test_the_most_of_the_last_minute_counts_in_total() -> None:
    seen = SeenMemory().after(80, 1.0, between_turns=False, has_lane=True)
    assert seen == SeenMemory(0, 80)
    seen = seen.after(20, 3.0, between_turns=True, has_lane=True)
    assert seen == SeenMemory(20, 80)
    seen = seen.after(20, 1.0 + RECENT_SECONDS, between_turns=True, has_lane=True)
    assert seen == SeenMemory(20, 20)


def test_a_few_per_cent_less_change_nothing() -> None:
    seen = SeenMemory(100, 100).after(96, RECENT_SECONDS, between_turns=True, has_lane=True)
    assert seen == SeenMemory(100, 100)


def test_memory_of_a_waiting_tenant_counts_once_it_is_seen() -> None:
    table = table_of(100, unknown("a", 60), unknown("b", 60))
    assert table.promised_bytes == 60
    outcome = table.resize(unknown("b", 60, seen=SeenMemory(30, 30)))
    assert outcome.table.promised_bytes == 90
    assert outcome.table.lane_of("b") is None
    outcome = outcome.table.resize(unknown("b", 60, seen=SeenMemory(50, 50)))
    assert outcome.evict
    assert outcome.refusal is not None
    assert outcome.refusal.lacking_bytes == 10


def test_lanes_are_merged_for_memory_that_nobody_reported() -> None:
    table = table_of(100, known("a", 10, 30, quota=100), known("b", 10, 30, quota=100))
    assert lanes(table) == ["a", "b"]
    outcome = table.resize(known("b", 10, 30, quota=100, seen=SeenMemory(10, 70)))
    assert lanes(outcome) == ["ab"]
    assert counted_ephemeral_bytes(outcome.table.tenants[1], EXACT) == 60
