"""Plot: how many jobs wait over time, one line a policy."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.simulator.html_report.axes import WIDTH, frame, x_axis, y_axis
from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.svg import color, legend, picture, polyline

HEIGHT = 260
BUCKETS = 440


def queue_plot(outcomes: Sequence[Outcome]) -> str:
    """Return the plot: means over equal parts of the time of the longest simulation."""
    begin = min(outcome.from_seconds for outcome in outcomes)
    span = max(outcome.to_seconds for outcome in outcomes) - begin
    if span <= 0:
        return "<p>Nothing has happened.</p>"
    buckets = Buckets(0.0, span, BUCKETS)
    lines = [
        buckets.averages([(moment.seconds - begin, float(moment.waiting_jobs)) for moment in outcome.moments])
        for outcome in outcomes
    ]
    x, y = x_axis(0.0, span), y_axis(max(1.0, *(max(line) for line in lines)), HEIGHT)
    body = list(frame(x, y, "time since the first submission", "jobs that wait"))
    for number, line in enumerate(lines):
        middles = [buckets.width_seconds * (bucket + 0.5) for bucket in range(BUCKETS)]
        points = [(x.at(middle), y.at(value)) for middle, value in zip(middles, line, strict=True)]
        body.append(polyline(points, color(number)))
    return picture(WIDTH, HEIGHT, "Waiting jobs over time", body) + legend(
        (color(number), outcome.name) for number, outcome in enumerate(outcomes)
    )
