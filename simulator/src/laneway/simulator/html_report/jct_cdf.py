"""Plot: the cumulative distribution of job completion times, one line per policy."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.plot import Plot, line
from laneway.simulator.units import rounded, time_unit

MOST_POINTS = 400
"""Of one line; more could not be told apart."""

_LOGARITHMIC_FROM_RATIO = 100.0
"""A longest time of this many shortest times gets a logarithmic axis."""


def jct_cdf(outcomes: Sequence[Outcome]) -> Plot | None:
    """Return the plot, or None if no job has finished. Lines of policies with unfinished jobs end below 1."""
    values = [seconds for outcome in outcomes for seconds in outcome.completion_seconds]
    if not values:
        return None
    logarithmic = max(values) / max(1e-3, min(values)) >= _LOGARITHMIC_FROM_RATIO
    unit_seconds, unit = (1.0, "s") if logarithmic else time_unit(max(values))
    traces: list[dict[str, Any]] = []
    for number, outcome in enumerate(outcomes):
        points = _points(outcome.completion_seconds, outcome.report.jobs + outcome.report.unfinished_jobs)
        if points:
            points = [(points[0][0], 0.0), *points, (max(values), points[-1][1])]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "line": {**line(number), "shape": "hv"},
                "name": escape(outcome.name),
                "x": rounded(max(1e-3, seconds) / unit_seconds for seconds, _ in points),
                "y": rounded(ratio for _, ratio in points),
            }
        )
    x_axis: dict[str, Any] = {"title": {"text": f"job completion time ({unit})"}}
    if logarithmic:
        x_axis |= {"type": "log", "dtick": 1}
    y_axis = {"title": {"text": "fraction of the jobs"}, "range": [0, 1.02]}
    return Plot("Distribution of job completion times", traces, x_axis, y_axis, 360)


def _points(ordered: Sequence[float], jobs: int) -> list[tuple[float, float]]:
    """Return some of the distribution's points, the first and the last among them."""
    stride = max(1, len(ordered) // MOST_POINTS)
    chosen = sorted({*range(0, len(ordered), stride), len(ordered) - 1} - {-1})
    return [(ordered[index], (index + 1) / jobs) for index in chosen]
