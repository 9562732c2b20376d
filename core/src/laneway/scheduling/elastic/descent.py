"""Minimise a smooth function of a handful of bounded parameters: Levenberg and Marquardt's damped Gauss-Newton steps.

scipy has such methods, but with vectors of seven numbers its BLAS spends far more time on waking its threads than on
computing, and an agent fits its model every minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

MAX_STEPS = 100
SMALL_STEPS = 3
"""The number of consecutive small steps that end the search; a single step may be small because of damping."""

LONGEST_STEP = 3.0
"""The largest step in any parameter; beyond it the quadratic approximation is not valid."""


class Slope(NamedTuple):
    """A function at a point."""

    loss: float
    gradient: Array
    curvature: Array
    """Its approximate second derivatives: a positive semi-definite matrix."""


def minimise(
    slope_at: Callable[[Array], Slope], start: Array, lower: Array, upper: Array, tolerance: float
) -> Array:
    """Return a local minimum near the start, within the bounds.

    Args:
        slope_at: the function.
        start: where to begin.
        lower: of each parameter; where it equals ``upper``, the parameter stays there.
        upper: of each parameter.
        tolerance: a step is small if it reduces the loss by less than this fraction.
    """
    import numpy as np

    at = np.clip(start, lower, upper)
    slope = slope_at(at)
    damping, small_steps = 1e-2, 0
    for _ in range(MAX_STEPS):
        held = (
            (lower == upper) | ((at <= lower) & (slope.gradient > 0)) | ((at >= upper) & (slope.gradient < 0))
        )
        free = np.flatnonzero(~held)
        if not len(free) or damping > 1e9:
            break
        curvature = slope.curvature[np.ix_(free, free)]
        damped = curvature + np.diag(damping * np.diag(curvature) + 1e-12)
        step = -np.linalg.solve(damped, slope.gradient[free])
        trial = at.copy()
        trial[free] = np.clip(at[free] + np.clip(step, -LONGEST_STEP, LONGEST_STEP), lower[free], upper[free])
        there = slope_at(trial)
        if there.loss >= slope.loss:
            damping *= 6
            continue
        small_steps = small_steps + 1 if slope.loss - there.loss < tolerance * slope.loss else 0
        at, slope = trial, there
        damping = max(damping / 6, 1e-9)
        if small_steps == SMALL_STEPS:
            break
    return at
