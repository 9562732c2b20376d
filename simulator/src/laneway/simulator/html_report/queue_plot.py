"""Plot: the number of waiting jobs over time, one line per policy."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.plot import Plot, line, time_axis
from laneway.simulator.units import rounded

BUCKETS = 440


def queue_plot(outcomes: Sequence[Outcome], span: float) -> Plot | None:
    """Return the plot, averaged over equal parts of the longest simulation's seconds; None if nothing has happened."""
    start = min(outcome.from_seconds for outcome in outcomes)
    if span <= 0:
        return None
    buckets = Buckets(0.0, span, BUCKETS)
    unit_seconds, x_axis = time_axis(span)
    middles = [buckets.width_seconds * (bucket + 0.5) / unit_seconds for bucket in range(BUCKETS)]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "line": line(number),
            "name": escape(outcome.name),
            "x": rounded(middles),
            "y": rounded(
                buckets.averages(
                    [(sample.seconds - start, float(sample.waiting_jobs)) for sample in outcome.samples]
                )
            ),
        }
        for number, outcome in enumerate(outcomes)
    ]
    y_axis = {"title": {"text": "waiting jobs"}, "rangemode": "tozero"}
    return Plot("Waiting jobs over time", traces, x_axis, y_axis, layout={"hovermode": "x"}, over_time=True)
