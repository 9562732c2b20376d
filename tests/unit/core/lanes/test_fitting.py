"""Whether a tenant fits a GPU beside its present tenants."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.lanes import (
    LaneRules,
    RefusalReason,
    Tenant,
    counted_ephemeral_bytes,
    counted_persistent_bytes,
    fits,
    is_safe,
    promised_bytes,
    refusal,
    tightest_bytes,
)

from tests.unit.core.lanes.builders import EXACT, known, unknown

"""A busy machine is not a failure."""


@pytest.mark.parametrize(
    ("story", "tenant", "padding", "persistent", "ephemeral"),
    [
        ("an unprofiled tenant counts with its whole share", unknown("a", 50), 10, 50, 0),
        ("a profiled tenant counts as measured", known("a", 10, 20, quota=50), 0, 10, 20),
        ("padding is added to both sizes, rounded up", known("a", 10, 21, quota=50), 10, 11, 24),
        ("no tenant counts for more than its quota", known("a", 10, 60, quota=50), 0, 10, 40),
        ("not even when its persistent memory alone is more", known("a", 70, 60, quota=50), 0, 50, 0),
    ],
)
def test_what_counts_of_a_tenant(
    story: str, tenant: Tenant, padding: int, persistent: int, ephemeral: int
) -> None:
    rules = LaneRules(padding_percent=padding)
    assert counted_persistent_bytes(tenant, rules) == persistent, story
    assert counted_ephemeral_bytes(tenant, rules) == ephemeral, story


@pytest.mark.parametrize(
    ("story", "present", "newcomer", "max_lanes", "want", "lacking"),
    [
        ("an empty GPU takes what it can hold", [], unknown("n", 100), 0, None, 0),
        ("more than the GPU never fits", [], unknown("n", 101), 0, RefusalReason.LARGER_THAN_GPU, 1),
        (
            "shares of more than 100 percent wait for the first profile",
            [unknown("a", 60)],
            unknown("n", 60),
            0,
            RefusalReason.AWAITING_PROFILE,
            20,
        ),
        ("and fit once it is there", [known("a", 10, 30, quota=60)], unknown("n", 60), 0, None, 0),
        (
            "a profile would not help where the profiled alone are too many",
            [known("a", 50, 10), unknown("b", 10)],
            unknown("n", 60),
            0,
            RefusalReason.INSUFFICIENT_MEMORY,
            30,
        ),
        (
            "ephemerals of one lane count once",
            [known("a", 10, 60), known("b", 10, 60)],
            known("n", 20, 50),
            0,
            None,
            0,
        ),
        (
            "but persistent bytes add up",
            [known("a", 20, 60)],
            known("n", 30, 10),
            0,
            RefusalReason.INSUFFICIENT_MEMORY,
            10,
        ),
        (
            "jobs on several GPUs share no lane with each other",
            [known("a", 10, 40, spans=True)],
            known("n", 10, 50, spans=True),
            0,
            RefusalReason.INSUFFICIENT_MEMORY,
            10,
        ),
        (
            "and need as many lanes as there are of them",
            [known("a", 1, 1, spans=True)],
            known("n", 1, 1, spans=True),
            1,
            RefusalReason.LANE_LIMIT,
            0,
        ),
        (
            "nobody joins a tenant that has the GPU alone",
            [unknown("a", 10, exclusive=True)],
            unknown("n", 10),
            0,
            RefusalReason.HELD_EXCLUSIVELY,
            0,
        ),
        (
            "and it joins nobody",
            [known("a", 1, 1)],
            unknown("n", 10, exclusive=True),
            0,
            RefusalReason.NOT_EMPTY,
            0,
        ),
    ],
)
def test_refusals(
    story: str,
    present: list[Tenant],
    newcomer: Tenant,
    max_lanes: int,
    want: RefusalReason | None,
    lacking: int,
) -> None:
    answer = refusal(100, present, newcomer, LaneRules(max_lanes, padding_percent=0))
    assert (answer and answer.reason) == want, story
    if answer is not None:
        assert answer.lacking_bytes == lacking, story
        assert str(answer.message)[0] != " "
        assert set(answer.blockers) <= {tenant.key for tenant in present}


def test_a_refusal_names_the_tenant_whose_profile_would_help() -> None:
    answer = refusal(100, [known("a", 1, 1), unknown("b", 60)], unknown("n", 60), EXACT)
    assert answer is not None
    assert answer.blockers == ("b",)
    assert str(answer.message) == "it needs 22 B more memory: b counts with the full share until profiled"


@pytest.mark.parametrize(("field", "value"), [("max_lanes", -1), ("padding_percent", -5)])
def test_wrong_rules_are_refused_by_name(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=field):
        LaneRules(**{field: value})


def test_a_negative_size_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ephemeral_bytes of tenant a"):
        Tenant("a", 1, ephemeral_bytes=-1)


def tenants(most: int) -> st.SearchStrategy[list[Tenant]]:
    one = st.tuples(st.integers(0, 12), st.integers(0, 12), st.booleans(), st.booleans())
    return st.lists(one, max_size=most).map(
        lambda rows: [
            Tenant(
                str(number),
                persistent + ephemeral,
                persistent_bytes=persistent,
                ephemeral_bytes=ephemeral,
                profiled=profiled,
                spans_gpus=spans,
            )
            for number, (persistent, ephemeral, profiled, spans) in enumerate(rows)
        ]
    )


def partitions(items: list[Tenant]) -> list[list[list[Tenant]]]:
    """All ways to put the tenants into lanes."""
    if not items:
        return [[]]
    first, rest = items[0], items[1:]
    ways = []
    for count in range(len(rest) + 1):
        for mates in combinations(rest, count):
            others = [item for item in rest if item not in mates]
            ways += [[[first, *mates], *way] for way in partitions(others)]
    return ways


@given(tenants(5))
def test_no_arrangement_in_lanes_is_tighter_than_the_tightest(present: list[Tenant]) -> None:
    allowed = [
        way for way in partitions(present) if all(sum(t.spans_gpus for t in lane) <= 1 for lane in way)
    ]
    assert tightest_bytes(present, EXACT) == min(promised_bytes(way, EXACT) for way in allowed)


@given(tenants(6), st.integers(0, 60))
def test_a_tenant_fits_exactly_if_the_tightest_packing_is_safe(present: list[Tenant], capacity: int) -> None:
    newcomer = known("n", 3, 5)
    safe = tightest_bytes([*present, newcomer], EXACT) <= capacity
    assert fits(capacity, present, newcomer, EXACT) == safe
    if safe and not any(t.spans_gpus for t in present):
        assert is_safe(capacity, [[*present, newcomer]], EXACT)
