"""A tenant that computes without a turn, as the driver's samples show it."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.lanes.unscheduled_use import Observation, UnscheduledUse

READ_SECONDS = 2.0


def looks(
    busy: Iterable[float], turn_ratio: float = 0.0, *, contended: bool = True, pause: float = READ_SECONDS
) -> list[Observation]:
    """Readings of a tenant that has turns for a part of the time."""
    ratios = [0.0, *busy]
    return [
        Observation(number * pause, ratio, number * pause * turn_ratio, turn_ratio, contended)
        for number, ratio in enumerate(ratios)
    ]


def after(observations: Iterable[Observation | None]) -> UnscheduledUse:
    use = UnscheduledUse()
    for seen in observations:
        use = use.after(seen)
    return use


def test_a_tenant_that_computes_all_the_time_without_turns_is_found_within_five_readings() -> None:
    assert not after(looks([1.0] * 3)).computes_without_turn
    assert after(looks([1.0] * 5)).computes_without_turn


def test_a_tenant_that_takes_turns_and_computes_between_them_is_found() -> None:
    assert after(looks([1.0] * 15, turn_ratio=0.5)).computes_without_turn


def test_half_of_a_lane_and_half_of_the_time_is_no_violation() -> None:
    use = after(looks([0.5] * 500, turn_ratio=0.5))
    assert not use.computes_without_turn
    assert use.total_seconds == pytest.approx(0)


def test_a_process_that_has_just_released_its_turn_is_innocent() -> None:
    held = [Observation(0, 1.0, 10, 1.0, True), Observation(2, 1.0, 12, 1.0, True)]
    released = [Observation(4, 1.0, 12, 0.0, True), Observation(6, 0.0, 12, 0.0, True)]
    use = UnscheduledUse()
    for seen in (*held, *released):
        use = use.after(seen)
        assert not use.computes_without_turn


def test_nobody_is_accused_where_nobody_waits() -> None:
    assert after(looks([1.0] * 50, contended=False)).debt_seconds == 0


def test_nobody_is_accused_where_the_driver_reports_nothing() -> None:
    use = after([*looks([1.0] * 10), None])
    assert not use.computes_without_turn
    assert use.debt_seconds == 0
    assert use.total_seconds == pytest.approx(20)


def test_a_tenant_that_stops_is_innocent_with_the_next_reading() -> None:
    guilty = after(looks([1.0] * 10))
    assert guilty.computes_without_turn
    assert not guilty.after(Observation(22, 0.0, 0.0, 0.0, True)).computes_without_turn


@given(
    seed=st.integers(0, 10_000), turn_seconds=st.sampled_from([0.1, 0.5, 1.0, 3.0]), tenants=st.integers(2, 4)
)
def test_samples_of_turns_alone_accuse_nobody_for_long(seed: int, turn_seconds: float, tenants: int) -> None:
    """One of several tenants that take turns in rotation, sampled over the last sixth of a second, up to a second ago."""
    chance = random.Random(seed)
    round_seconds = turn_seconds * tenants
    offset = chance.random() * round_seconds

    def held(until: float) -> float:
        rounds, rest = divmod(until + offset, round_seconds)
        return rounds * turn_seconds + min(rest, turn_seconds)

    use, accused = UnscheduledUse(), 0
    for number in range(1, 301):
        now = number * READ_SECONDS
        sampled_until = now - chance.random()
        busy = (held(sampled_until) - held(sampled_until - 1 / 6)) * 6
        recent = held(now) - held(now - 1)
        use = use.after(Observation(now, busy, held(now), recent, True))
        accused += use.computes_without_turn
    assert accused * READ_SECONDS < 30, "the grace would be spent within ten minutes"


@given(
    turn_ratio=st.floats(0, 0.7),
    pause=st.floats(0.5, 10),
    busy=st.floats(0, 1),
)
def test_the_debt_of_a_tenant_beyond_the_tolerance_grows_until_it_is_found(
    turn_ratio: float, pause: float, busy: float
) -> None:
    readings = int(200 / pause) + 2
    use = after(looks([busy] * readings, turn_ratio, pause=pause))
    if busy - turn_ratio > 0.3:
        assert use.computes_without_turn
    if busy - turn_ratio < 0.2:
        assert not use.computes_without_turn
