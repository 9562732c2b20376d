"""Sizes for jobs within a capacity."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.elastic import knapsack
from laneway.scheduling.elastic.knapsack import Option, along_envelopes, choose, exactly

from tests.support.property_examples import examples

quick = settings(max_examples=examples(100))


@st.composite
def job_options(draw: st.DrawFn) -> list[Option]:
    """The options of one job: 0, then rising sizes of any value."""
    sizes = draw(st.lists(st.integers(1, 6), max_size=3, unique=True))
    return [Option(0, 0.0), *(Option(size, draw(st.integers(-5, 20)) / 1.0) for size in sorted(sizes))]


PROBLEMS = st.tuples(st.lists(job_options(), max_size=5), st.integers(0, 14))


def value(options: list[list[Option]], chosen: list[int]) -> float:
    return sum(job[index].value for job, index in zip(options, chosen, strict=True))


def size(options: list[list[Option]], chosen: list[int]) -> int:
    return sum(job[index].size for job, index in zip(options, chosen, strict=True))


@quick
@given(PROBLEMS)
def test_the_exact_answer_is_the_best_of_all(problem: tuple[list[list[Option]], int]) -> None:
    options, capacity = problem
    chosen = exactly(options, capacity)
    assert size(options, chosen) <= capacity
    assert value(options, chosen) == max(
        value(options, list(any_choice))
        for any_choice in product(*(range(len(job)) for job in options))
        if size(options, list(any_choice)) <= capacity
    )


@quick
@given(PROBLEMS)
def test_along_envelopes_the_capacity_holds_and_no_value_is_lost(
    problem: tuple[list[list[Option]], int],
) -> None:
    options, capacity = problem
    chosen = along_envelopes(options, capacity)
    assert size(options, chosen) <= capacity
    assert value(options, chosen) >= 0


@quick
@given(
    st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=5), min_size=1, max_size=6), st.integers(0, 20)
)
def test_along_envelopes_concave_values_come_out_best(gains: list[list[int]], capacity: int) -> None:
    options = [
        [Option(count, float(sum(sorted(job, reverse=True)[:count]))) for count in range(len(job) + 1)]
        for job in gains
    ]
    assert value(options, along_envelopes(options, capacity)) == value(options, exactly(options, capacity))


def test_a_large_problem_is_solved_along_envelopes_and_nearly_as_well() -> None:
    options = [[Option(count, (1 + job % 7) * count**0.5) for count in range(65)] for job in range(400)]
    chosen = choose(options, 5000)
    assert size(options, chosen) <= 5000
    assert value(options, chosen) >= 0.999 * value(options, exactly(options, 5000))


def test_least_sizes_beyond_the_capacity_are_refused() -> None:
    with pytest.raises(ValueError, match="the jobs need 5 at least, and there are 4"):
        choose([[Option(2, 0.0)], [Option(3, 0.0)]], 4)


@quick
@given(PROBLEMS, st.lists(st.integers(0, 3), min_size=5, max_size=5))
def test_least_sizes_above_0_are_part_of_the_capacity(
    problem: tuple[list[list[Option]], int], least: list[int]
) -> None:
    options = [
        [Option(option.size + more, option.value) for option in job]
        for job, more in zip(problem[0], least, strict=False)
    ]
    capacity = problem[1] + sum(job[0].size for job in options)
    for solve in (exactly, along_envelopes):
        assert solve(options, capacity) == solve(problem[0], problem[1])


@pytest.mark.parametrize("solve", [exactly, along_envelopes])
def test_a_size_that_adds_no_value_is_not_given(
    solve: Callable[[list[list[Option]], int], list[int]],
) -> None:
    assert solve([[Option(0, 0.0), Option(1, 1.0), Option(2, 1.0)]], 5) == [1]


@pytest.mark.parametrize(("cells", "chosen"), [(16, [0, 1]), (15, [1, 0])], ids=["exactly", "greedily"])
def test_the_size_of_the_table_decides_whether_the_answer_is_exact(
    monkeypatch: pytest.MonkeyPatch, cells: int, chosen: list[int]
) -> None:
    """Four options and four sizes. The job with the best value per size leaves too little for the better one."""
    monkeypatch.setattr(knapsack, "EXACT_CELLS", cells)
    assert choose([[Option(0, 0.0), Option(2, 3.0)], [Option(0, 0.0), Option(3, 4.0)]], 3) == chosen
