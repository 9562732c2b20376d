"""The simulation behind start estimates: who gets which GPUs when, and who is preempted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from laneway.scheduling.explain.forecast import (
    Claim,
    GPUGroup,
    Holder,
    estimated_starts,
    expected_left_seconds,
)
from laneway.scheduling.gpus.views import Level
from laneway.scheduling.model.gpu_class import class_of

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import GIB, NOW, a_job, a_node

SMALL = GPUGroup(class_of(a_node("s", 1, model="T4", memory=16 * GIB).gpus[0]))
LARGE = GPUGroup(class_of(a_node("l", 1).gpus[0]))
BOTH = frozenset({SMALL, LARGE})
EITHER_WAY = pytest.mark.parametrize(("fuller", "emptier"), [(SMALL, LARGE), (LARGE, SMALL)])
LONG_SECONDS = 1e6
DEPARTURE_SECONDS = 30.0
FIRST, SECOND, THIRD = (0, 0), (0, 1), (0, 2)


def holder(
    key: str, left: float, group: GPUGroup = LARGE, percent: int = 100, falls: float = math.inf
) -> Holder:
    """It ends some seconds from now, and jobs of the first queue may preempt it some seconds from now."""
    return Holder(key, group, percent, NOW + left, NOW + falls, SECOND)


def claim(
    key: str,
    *groups: GPUGroup,
    percent: int = 100,
    runs: float = LONG_SECONDS,
    level: Level = FIRST,
    is_preemptor: bool = False,
) -> Claim:
    return Claim(key, level, frozenset(groups or (LARGE,)), percent, runs, is_preemptor)


def starts(
    claims: list[Claim], holders: list[Holder], free: Mapping[GPUGroup, int] | None = None
) -> dict[str, float]:
    """Seconds from now until each job starts."""
    found = estimated_starts(claims, holders, free or {}, NOW, DEPARTURE_SECONDS)
    return {key: start_seconds - NOW for key, start_seconds in found.items()}


def test_time_since_the_record_counts_as_run_time() -> None:
    job = replace(a_job("j").runs_on("n/0").made, executed_seconds=100.0, as_of_seconds=NOW - 50)
    assert expected_left_seconds(job, NOW) == (150.0, False)
    assert expected_left_seconds(replace(job, expected_seconds=400.0), NOW) == (250.0, True)


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_a_job_that_exceeds_its_expected_time_ends_soon(expected: float, more: float) -> None:
    ran = expected + more
    job = replace(a_job("j").runs_on("n/0").made, executed_seconds=ran, expected_seconds=expected)
    left, known = expected_left_seconds(job, NOW)
    assert known
    assert 0 < left <= ran / 10


# Jobs that can use GPUs of two classes.


@EITHER_WAY
def test_they_take_the_fuller_class_first(fuller: GPUGroup, emptier: GPUGroup) -> None:
    claims = [claim("any", *BOTH), claim("rest", emptier, percent=300)]
    assert starts(claims, [], {fuller: 100, emptier: 300}) == {"any": 0.0, "rest": 0.0}


@EITHER_WAY
@pytest.mark.parametrize(
    ("rest", "want"), [(150, {"any": 0.0, "rest": 0.0}), (151, {"any": 0.0, "rest": LONG_SECONDS})]
)
def test_the_emptier_class_gives_what_the_fuller_one_lacks(
    fuller: GPUGroup, emptier: GPUGroup, rest: int, want: dict[str, float]
) -> None:
    claims = [claim("any", *BOTH, percent=250), claim("rest", emptier, percent=rest)]
    assert starts(claims, [], {fuller: 100, emptier: 300}) == want


@EITHER_WAY
def test_no_more_than_is_free_is_taken_from_the_fuller_class(fuller: GPUGroup, emptier: GPUGroup) -> None:
    claims = [claim("any", *BOTH, percent=200), claim("next", fuller)]
    assert starts(claims, [holder("old", 50, fuller)], {fuller: 0, emptier: 200})["next"] == 50.0
    assert starts(claims, [holder("old", 50, fuller)], {fuller: 100, emptier: 200})["next"] == 50.0


@settings(max_examples=examples(50))
@given(
    st.lists(st.tuples(st.sampled_from([SMALL, LARGE]), st.integers(1, 200), st.integers(1, 100))),
    st.lists(
        st.tuples(
            st.sampled_from([frozenset({SMALL}), frozenset({LARGE}), BOTH]),
            st.integers(1, 200),
            st.booleans(),
        ),
        max_size=6,
    ),
    st.sampled_from([{}, {SMALL: 0}, {SMALL: 100}, {LARGE: 0}, {LARGE: 150}]),
)
@example([(LARGE, 100, 50)], [(BOTH, 100, True), (frozenset({LARGE}), 1, False)], {})
@example([(LARGE, 100, 50)], [(frozenset({LARGE}), 100, True), (frozenset({LARGE}), 1, False)], {})
@example([(LARGE, 100, 50)], [(frozenset({LARGE}), 101, False)], {})
@example([(SMALL, 100, 50)], [(BOTH, 100, True), (frozenset({SMALL}), 100, False)], {LARGE: 0})
def test_a_class_with_nothing_free_may_be_left_out(
    held: list[tuple[GPUGroup, int, int]],
    wanted: list[tuple[frozenset[GPUGroup], int, bool]],
    free: dict[GPUGroup, int],
) -> None:
    holders = [holder(f"h{at}", left, of, percent) for at, (of, percent, left) in enumerate(held)]
    claims = [
        claim(f"j{at}", *of, percent=percent, runs=500.0, is_preemptor=is_preemptor)
        for at, (of, percent, is_preemptor) in enumerate(wanted)
    ]
    assert starts(claims, holders, free) == starts(claims, holders, {SMALL: 0, LARGE: 0} | free)


def test_what_a_preemptor_waits_for_is_promised_to_no_other_job() -> None:
    claims = [claim("next"), claim("preemptor", runs=500.0, is_preemptor=True)]
    assert starts(claims, [holder("victim", DEPARTURE_SECONDS)]) == {"preemptor": 30.0, "next": 530.0}


class TestPreemption:
    def test_a_preempted_job_gives_its_gpus_once(self) -> None:
        victim = holder("victim", 1500, falls=50)
        claims = [claim("first", runs=1000.0), claim("second", runs=1000.0), claim("third")]
        assert starts(claims, [victim]) == {"first": 80.0, "second": 1080.0, "third": 2080.0}

    def test_a_job_that_has_ended_is_no_victim(self) -> None:
        claims = [claim("first", runs=1000.0, level=SECOND), claim("gang", percent=200, runs=1.0)]
        ended = holder("ended", 100, falls=50)
        assert starts(claims, [ended, holder("other", 400)]) == {"first": 100.0, "gang": 1100.0}

    def test_free_gpus_count_beside_the_victims(self) -> None:
        victim = holder("victim", LONG_SECONDS, percent=50, falls=10)
        assert starts([claim("j")], [victim], {LARGE: 50}) == {"j": 40.0}

    def test_too_few_victims_are_not_preempted(self) -> None:
        victim = holder("victim", 300, percent=99, falls=10)
        assert starts([claim("j")], [victim, holder("other", 500, percent=1)]) == {"j": 500.0}

    def test_as_many_are_preempted_as_it_takes(self) -> None:
        victims = [holder(f"victim{at}", LONG_SECONDS, percent=50, falls=10) for at in (1, 2)]
        assert starts([claim("j", percent=51)], victims) == {"j": 40.0}

    def test_no_more_are_preempted_than_needed(self) -> None:
        old = [holder(f"old{at}", 500, falls=10) for at in (1, 2)]
        claims = [claim("first"), claim("equal", level=SECOND)]
        assert starts(claims, old) == {"first": 40.0, "equal": 500.0}

    def test_the_largest_level_is_preempted_first(self) -> None:
        for levels in ((SECOND, THIRD), (THIRD, SECOND)):
            old = [
                Holder(f"old{at}", LARGE, 100, NOW + 500, NOW + 10, level) for at, level in enumerate(levels)
            ]
            claims = [claim("first"), claim("second", level=SECOND)]
            assert starts(claims, old) == {"first": 40.0, "second": 500.0}, "of its own level only is left"

    @pytest.mark.parametrize(("falls_to", "second"), [(SECOND, 50.0 + 30.0), (FIRST, 1000.0)])
    def test_a_started_job_is_preempted_by_smaller_levels_once_it_falls(
        self, falls_to: Level, second: float
    ) -> None:
        first = Claim("first", FIRST, frozenset({LARGE}), 100, 1000.0, False, 50.0, falls_to)
        assert starts([first, claim("second")], [], {LARGE: 100}) == {"first": 0.0, "second": second}


def test_jobs_beyond_the_horizon_get_no_estimate() -> None:
    claims = [claim(f"j{at}") for at in range(700)]
    found = starts(claims, [holder(f"h{at}", 1.0 + at) for at in range(700)])
    assert 400 < len(found) < 600
    assert list(found) == [each.key for each in claims[: len(found)]]


def test_a_job_without_usable_gpus_gets_no_estimate() -> None:
    nowhere = Claim("nowhere", FIRST, frozenset(), 0, 100.0)
    assert starts([nowhere, claim("j")], [], {LARGE: 100}) == {"j": 0.0}
