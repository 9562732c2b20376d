"""The smallest value of a function of bounded parameters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.scheduling.elastic.descent import Slope, minimise
from numpy.typing import NDArray

WIDE = np.full(2, 10.0)


def valley(at: NDArray[np.float64]) -> Slope:
    """Rosenbrock's curved valley: 0 at (1, 1)."""
    residuals = np.array([10 * (at[1] - at[0] ** 2), 1 - at[0]])
    slopes = np.array([[-20 * at[0], 10.0], [-1.0, 0.0]])
    return Slope(float(residuals @ residuals), 2 * slopes.T @ residuals, 2 * slopes.T @ slopes)


@settings(max_examples=30)
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
