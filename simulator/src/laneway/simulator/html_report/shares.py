"""Plot: GPUs over time, stacked by job: the largest jobs by GPU time, and all others together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from html import escape

from laneway.simulator.history import Interval
from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.plot import COLORS, REST_COLOR, Plot, color, time_axis
from laneway.simulator.html_report.units import rounded

BUCKETS = 240
REST = ""
"""Stands for all other jobs together."""


def shares(outcome: Outcome) -> Plot | None:
    """Return the plot, or None if no job has held a GPU."""
    if not outcome.intervals:
        return None
    held: defaultdict[str, float] = defaultdict(float)
    for interval in outcome.intervals:
        held[interval.job] += _gpus(interval) * (interval.to_seconds - interval.from_seconds)
    largest = sorted(held, key=lambda job: (-held[job], job))[: len(COLORS) - 1]
    layers = _layers(outcome, largest)
    total = sum(held.values())
    span = outcome.to_seconds - outcome.from_seconds
    unit_seconds, x_axis = time_axis(span)
    edges = rounded(edge / unit_seconds for edge in Buckets(0.0, span, BUCKETS).edges())
    traces = []
    for number, name in enumerate([*largest, REST] if len(held) > len(largest) else largest):
        time = held[name] if name else total - sum(held[job] for job in largest)
        title = name or f"{len(held) - len(largest)} other jobs"
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "stackgroup": "jobs",
                "line": {"shape": "hv", "width": 0, "color": color(number) if name else REST_COLOR},
                "fillcolor": color(number) if name else REST_COLOR,
                "name": escape(f"{title}: {100 * time / total:.1f} % of the GPU time"),
                "hovertemplate": f"{escape(title)}: %{{y:.2f}} GPUs<extra></extra>",
                "x": edges,
                "y": rounded([*layers[name], layers[name][-1]]),
            }
        )
    y_axis = {"title": {"text": "GPUs held"}, "rangemode": "tozero"}
    return Plot(f"GPUs held by each job, {outcome.name}", traces, x_axis, y_axis, 380)


def _layers(outcome: Outcome, largest: Sequence[str]) -> dict[str, list[float]]:
    """Return the mean GPUs of each named job, and of the rest, in every bucket."""
    buckets = Buckets(outcome.from_seconds, outcome.to_seconds, BUCKETS)
    layers = {name: [0.0] * BUCKETS for name in [*largest, REST]}
    for interval in outcome.intervals:
        layer = layers.get(interval.job, layers[REST])
        for bucket, part in buckets.parts(interval.from_seconds, interval.to_seconds):
            layer[bucket] += part * _gpus(interval)
    return layers


def _gpus(interval: Interval) -> float:
    return interval.share_percent * len(interval.gpus) / 100
