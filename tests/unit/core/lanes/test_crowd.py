"""Tenants summed up say what tenants looked at one by one say."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from laneway.lanes import Crowd, LaneRules, Tenant, fits, tightest_bytes

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
    crowd = Crowd.of(there, rules)
    assert crowd.tightest_bytes == tightest_bytes(there, rules)
    assert crowd.takes(capacity_bytes, newcomer, rules) == fits(capacity_bytes, there, newcomer, rules)


@given(CROWDS, tenants("one more"), RULES)
def test_one_more_is_as_if_it_had_been_there(
    there: tuple[Tenant, ...], other: Tenant, rules: LaneRules
) -> None:
    assert Crowd.of(there, rules).with_one_more(other, rules) == Crowd.of((*there, other), rules)
