"""Tenants summed up say what tenants looked at one by one say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from laneway.lanes import LaneRules, MemoryUsage, Tenant, fits, tightest_bytes

RULES = st.builds(LaneRules, max_lanes=st.integers(0, 3), padding_percent=st.sampled_from([0, 5, 10]))


@st.composite
def tenants(draw: st.DrawFn, key: str) -> Tenant:
    return Tenant(
        key,
        quota_bytes=draw(st.integers(0, 100)),
        persistent_bytes=draw(st.integers(0, 60)),
        ephemeral_bytes=draw(st.integers(0, 60)),
        profiled=draw(st.booleans()),
        spans_gpus=draw(st.booleans()),
        exclusive=draw(st.integers(0, 9)) == 0,
    )


CROWDS = st.integers(0, 5).flatmap(lambda count: st.tuples(*(tenants(f"t{n}") for n in range(count))))


@given(CROWDS, tenants("newcomer"), RULES, st.integers(0, 300))
def test_a_crowd_takes_whom_its_tenants_leave_room(
    there: tuple[Tenant, ...], newcomer: Tenant, rules: LaneRules, capacity_bytes: int
) -> None:
    usage = MemoryUsage.of(there, rules)
    assert usage.tightest_bytes == tightest_bytes(there, rules)
    assert usage.fits(capacity_bytes, newcomer, rules) == fits(capacity_bytes, there, newcomer, rules)


@given(CROWDS, tenants("one more"), RULES)
def test_one_more_is_as_if_it_had_been_there(
    there: tuple[Tenant, ...], other: Tenant, rules: LaneRules
) -> None:
    assert MemoryUsage.of(there, rules).plus(other, rules) == MemoryUsage.of((*there, other), rules)


EXACT = LaneRules(padding_percent=0)


def profiled(
    key: str, persistent: int, ephemeral: int, *, spans: bool = False, exclusive: bool = False
) -> Tenant:
    return Tenant(key, persistent + ephemeral, persistent, ephemeral, True, spans, exclusive)


def test_tenants_are_counted() -> None:
    there = [profiled("a", 1, 1), profiled("b", 1, 1), profiled("c", 1, 1)]
    assert [MemoryUsage.of(there[:number], EXACT).tenants for number in range(4)] == [0, 1, 2, 3]


def test_an_exclusive_tenant_keeps_everybody_out_and_stays_out_where_somebody_is() -> None:
    plain, alone = profiled("a", 1, 1), profiled("b", 1, 1, exclusive=True)
    assert MemoryUsage().fits(10, alone, EXACT)
    assert not MemoryUsage.of([alone], EXACT).fits(10, plain, EXACT)
    assert not MemoryUsage.of([plain], EXACT).fits(10, alone, EXACT)
    assert not MemoryUsage.of([alone], EXACT).fits(10, alone, EXACT)


def test_the_last_byte_counts() -> None:
    spanning = profiled("g", 2, 5, spans=True)
    one_lane = MemoryUsage.of([profiled("a", 3, 4)], EXACT)
    assert one_lane.fits(3 + 2 + 5, spanning, EXACT)
    assert not one_lane.fits(3 + 2 + 5 - 1, spanning, EXACT)
    two_lanes = MemoryUsage.of([profiled("h", 3, 4, spans=True)], EXACT)
    assert two_lanes.fits(3 + 2 + 4 + 5, spanning, EXACT)
    assert not two_lanes.fits(3 + 2 + 4 + 5 - 1, spanning, EXACT)
    shared = MemoryUsage.of([profiled("h", 3, 4, spans=True)], EXACT)
    assert shared.fits(3 + 1 + 6, profiled("a", 1, 6), EXACT)
    assert not shared.fits(3 + 1 + 6 - 1, profiled("a", 1, 6), EXACT)
