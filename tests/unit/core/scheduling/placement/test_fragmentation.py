"""The expected fragmentation of a node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from laneway.scheduling.placement.fragmentation import Fragmentation, Task, reduced

HALVES_AND_PAIRS = Fragmentation([Task(50, 1, 0.5), Task(100, 2, 0.5)])


@pytest.mark.parametrize(
    ("story", "state", "expected"),
    [
        ("nothing is free", (0, 0), 0),
        ("all of use to all", (100, 100), 0),
        ("a GPU that is whole, but no pair: of use to half of the tasks", (0, 100), 50),
        ("the rest of a GPU is of no use to halves either", (40, 100), (40 + 140) / 2),
        ("a pair is there, and a rest that is of use to halves only", (60, 100, 100), 30),
    ],
)
def test_what_is_of_no_use_to_typical_tasks(story: str, state: tuple[int, ...], expected: float) -> None:
    assert HALVES_AND_PAIRS.expected_percent(state) == pytest.approx(expected), story


def test_the_least_growth_fills_the_rest_that_fits() -> None:
    step = HALVES_AND_PAIRS.least((50, 60, 100, 100), (50, 60, 100, 100), 50, 1)
    assert step is not None
    assert step.levels == (50,)
    assert step.growth_percent == pytest.approx(-25)


def test_a_gpu_that_the_gang_holds_already_is_not_open_to_it() -> None:
    step = HALVES_AND_PAIRS.least((50, 60, 100, 100), (60, 100, 100), 50, 1)
    assert step is not None
    assert step.levels == (60,)
    assert HALVES_AND_PAIRS.least((50, 100), (), 50, 1) is None


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=8).map(lambda levels: tuple(sorted(levels))),
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 4)), min_size=1, max_size=4),
    st.integers(1, 100),
    st.integers(1, 3),
)
def test_no_step_is_better_than_the_one_taken(
    state: tuple[int, ...], kinds: list[tuple[int, int]], share: int, gpus: int
) -> None:
    measure = Fragmentation([Task(percent, count, 1 / len(kinds)) for percent, count in kinds])
    assert 0 <= measure.expected_percent(state) <= sum(state) + 1e-9
    step = measure.least(state, state, share, gpus)
    roomy = [level for level in state if level >= share]
    assert (step is None) == (len(roomy) < gpus)
    if step is not None and gpus == 1:
        grown = [
            measure.expected_percent(reduced(state, [level], share)) - measure.expected_percent(state)
            for level in roomy
        ]
        assert step.growth_percent == pytest.approx(min(grown), abs=1e-5)


FOURS_AND_EIGHTS = Fragmentation([Task(50, 1, 0.25, 4_000), Task(100, 1, 0.75, 8_000)])


@pytest.mark.parametrize(
    ("story", "cpu_millis", "expected"),
    [
        ("CPUs for all", 8_000, 0.75 * 60),
        ("CPUs for halves only", 7_999, 0.75 * 160),
        ("CPUs for none", 3_999, 160),
        ("more taken than there is", -1, 160),
        ("not known", float("inf"), 0.75 * 60),
    ],
)
def test_a_gpu_is_of_no_use_where_cpus_do_not_suffice(story: str, cpu_millis: float, expected: float) -> None:
    tier = FOURS_AND_EIGHTS.cpu_tier(cpu_millis)
    assert FOURS_AND_EIGHTS.expected_percent((60, 100), tier) == pytest.approx(expected), story


@given(
    st.lists(st.integers(0, 100), min_size=1, max_size=8).map(lambda levels: tuple(sorted(levels))),
    st.lists(st.tuples(st.integers(1, 100), st.integers(1, 4), st.integers(0, 5)), min_size=1, max_size=6),
    st.integers(0, 6),
)
def test_tiers_lose_nothing(
    state: tuple[int, ...], kinds: list[tuple[int, int, int]], cpu_millis: int
) -> None:
    """The same as leaving each kind of task out of account where it does not fit."""
    tasks = [Task(percent, gpus, 1 / len(kinds), cpus) for percent, gpus, cpus in kinds]
    measure = Fragmentation(tasks)
    expected = sum(
        Fragmentation([task._replace(cpu_millis=0)]).expected_percent(state)
        if task.cpu_millis <= cpu_millis
        else task.popularity_ratio * sum(state)
        for task in tasks
    )
    assert measure.expected_percent(state, measure.cpu_tier(cpu_millis)) == pytest.approx(expected)
