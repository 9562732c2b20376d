"""Plot: how many of the jobs were done within which time, one line a policy."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.simulator.html_report.axes import WIDTH, frame, x_axis_of_durations, y_axis
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.svg import color, legend, picture, polyline

HEIGHT = 320
MOST_POINTS = 400
"""Of one line; more could not be told apart."""


def jct_cdf(outcomes: Sequence[Outcome]) -> str:
    """Return the plot; jobs that never finished keep their line below 1."""
    values = [seconds for outcome in outcomes for seconds in outcome.completion_seconds]
    if not values:
        return "<p>No job has finished.</p>"
    x, y = x_axis_of_durations(values), y_axis(1.0, HEIGHT)
    body = list(frame(x, y, "job completion time", "part of the jobs"))
    for number, outcome in enumerate(outcomes):
        jobs = outcome.report.jobs + outcome.report.unfinished_jobs
        points = [(x.at(x.low), y.at(0.0))]
        points += [(x.at(seconds), y.at(part)) for seconds, part in _steps(outcome.completion_seconds, jobs)]
        if outcome.completion_seconds:
            points.append((x.at(x.high), points[-1][1]))
        body.append(polyline(points, color(number)))
    return picture(WIDTH, HEIGHT, "Distribution of job completion times", body) + legend(
        (color(number), outcome.name) for number, outcome in enumerate(outcomes)
    )


def _steps(ordered: Sequence[float], jobs: int) -> list[tuple[float, float]]:
    """Return some of the distribution's points, the first and the last among them."""
    stride = max(1, len(ordered) // MOST_POINTS)
    chosen = sorted({*range(0, len(ordered), stride), len(ordered) - 1} - {-1})
    return [(ordered[index], (index + 1) / jobs) for index in chosen]
