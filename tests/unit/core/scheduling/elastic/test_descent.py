"""The smallest value of a function of bounded parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.elastic.descent import LONGEST_STEP, SMALL_STEPS, Slope, minimise
from numpy.typing import NDArray

from tests.support.property_examples import examples

WIDE = np.full(2, 10.0)


def valley(at: NDArray[np.float64]) -> Slope:
    """Rosenbrock's curved valley: 0 at (1, 1)."""
    residuals = np.array([10 * (at[1] - at[0] ** 2), 1 - at[0]])
    slopes = np.array([[-20 * at[0], 10.0], [-1.0, 0.0]])
    return Slope(float(residuals @ residuals), 2 * slopes.T @ residuals, 2 * slopes.T @ slopes)


@settings(max_examples=examples(30))
@given(st.tuples(st.floats(-5, 5), st.floats(-5, 5)))
def test_the_end_of_a_curved_valley_is_found(start: tuple[float, float]) -> None:
    assert minimise(valley, np.array(start), -WIDE, WIDE, 1e-12) == pytest.approx([1.0, 1.0], abs=1e-3)


def test_a_bound_holds() -> None:
    found = minimise(valley, np.array([-1.0, 0.0]), -WIDE, np.array([0.5, 10.0]), 1e-12)
    assert found == pytest.approx([0.5, 0.25], abs=1e-4)


def test_a_parameter_without_room_stays() -> None:
    lower, upper = np.array([-10.0, 4.0]), np.array([10.0, 4.0])
    assert minimise(valley, np.array([1.5, 0.0]), lower, upper, 1e-12) == pytest.approx([2.0, 4.0], abs=0.01)


def test_without_any_room_the_start_is_the_answer() -> None:
    assert minimise(valley, np.zeros(2), np.ones(2), np.ones(2), 1e-12).tolist() == [1.0, 1.0]


class Recorded:
    """A function that remembers where it was asked."""

    def __init__(self, function: Callable[[NDArray[np.float64]], Slope]) -> None:
        self._function = function
        self.points: list[NDArray[np.float64]] = []

    def __call__(self, at: NDArray[np.float64]) -> Slope:
        self.points.append(at.copy())
        return self._function(at)


def bowl(*centre: float) -> Callable[[NDArray[np.float64]], Slope]:
    """The square of the distance from a centre."""
    return lambda at: Slope(float(np.sum((at - centre) ** 2)), 2 * (at - centre), 2 * np.eye(len(centre)))


def scaled(function: Callable[[NDArray[np.float64]], Slope], factor: float) -> Recorded:
    """The function in another unit."""
    return Recorded(lambda at: Slope(*(factor * part for part in function(at))))


@pytest.mark.parametrize("factor", [1e-6, 1.0])
def test_a_search_along_a_lower_bound_reaches_the_end(factor: float) -> None:
    found = minimise(scaled(valley, factor), np.array([2.0, 1.0]), np.array([2.0, -10.0]), WIDE, 1e-12)
    assert found == pytest.approx([2.0, 4.0], abs=1e-4)


@settings(max_examples=examples(30))
@given(*[st.tuples(st.floats(-20, 20), st.floats(-20, 20))] * 2)
def test_the_function_is_asked_within_the_bounds_and_by_limited_steps(
    start: tuple[float, float], centre: tuple[float, float]
) -> None:
    asked = Recorded(bowl(*centre))
    found = minimise(asked, np.array(start), -WIDE, WIDE, 1e-12)
    assert all((abs(point) <= WIDE).all() for point in asked.points)
    assert all((abs(np.diff(asked.points, axis=0)) <= LONGEST_STEP + 1e-9).ravel())
    assert found == pytest.approx(np.clip(centre, -10, 10), abs=1e-3)


@pytest.mark.parametrize("start", [(-10.0, 10.0), (10.0, -10.0), (-10.0, -10.0)])
@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_the_unit_of_the_function_does_not_matter(start: tuple[float, float], factor: float) -> None:
    lower, upper = np.array([-10.0, -10.0]), np.array([0.5, 10.0])
    asked, other = scaled(valley, 1.0), scaled(valley, factor)
    found = minimise(other, np.array(start), lower, upper, 1e-6)
    assert found == pytest.approx(minimise(asked, np.array(start), lower, upper, 1e-6), abs=1e-5)
    assert len(other.points) == len(asked.points)


def test_a_parameter_that_has_no_effect_stays() -> None:
    def of_the_first(at: NDArray[np.float64]) -> Slope:
        return Slope((at[0] - 1) ** 2, np.array([2 * (at[0] - 1), 0.0]), np.diag([2.0, 0.0]))

    assert minimise(of_the_first, np.array([4.0, 3.0]), -WIDE, WIDE, 1e-12) == pytest.approx([1.0, 3.0])


@pytest.mark.parametrize(("tolerance", "large_steps"), [(1.0, 0), (0.2, 1)])
def test_the_search_ends_after_consecutive_small_steps(tolerance: float, large_steps: int) -> None:
    """Each step halves the distance; the first reduces the loss by 37 %, the next by 15 %."""
    asked = Recorded(lambda at: Slope(1 + float(at @ at), 2 * at, 4 * np.eye(1)))
    minimise(asked, np.ones(1), -WIDE[:1], WIDE[:1], tolerance)
    assert len(asked.points) == 1 + large_steps + SMALL_STEPS


def test_without_any_room_the_function_is_asked_once() -> None:
    asked = Recorded(valley)
    minimise(asked, np.zeros(2), np.ones(2), np.ones(2), 1e-12)
    assert len(asked.points) == 1
