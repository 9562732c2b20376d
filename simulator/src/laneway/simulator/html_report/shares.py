"""Plot: GPUs over time, stacked by job; where the jobs are too many to tell apart, by how many GPUs a job holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from html import escape
from math import inf

from laneway.simulator.history import Interval
from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.plot import Plot, color, time_axis
from laneway.simulator.units import rounded

BUCKETS = 240
MOST_LAYERS = 10
_SIZES = (
    (0.5, "half a GPU or less"),
    (1, "up to 1 GPU"),
    (2, "2 GPUs"),
    (4, "3 to 4 GPUs"),
    (8, "5 to 8 GPUs"),
    (16, "9 to 16 GPUs"),
    (32, "17 to 32 GPUs"),
    (64, "33 to 64 GPUs"),
    (inf, "more than 64 GPUs"),
)
"""Classes of jobs: the most GPUs of each, and its name."""


def shares(outcome: Outcome, span_seconds: float) -> Plot | None:
    """Return the plot, on the time axis of the longest simulation; None if no job has held a GPU."""
    if not outcome.intervals:
        return None
    layer_of = _layer_of(outcome.intervals)
    layers = _layers(outcome, layer_of)
    span = outcome.to_seconds - outcome.from_seconds
    unit_seconds, x_axis = time_axis(span_seconds)
    edges = rounded(edge / unit_seconds for edge in Buckets(0.0, span, BUCKETS).edges())
    totals = {name: sum(values) for name, values in layers.items()}
    total = sum(totals.values())
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "stackgroup": "jobs",
            "line": {"shape": "hv", "width": 0, "color": color(number)},
            "fillcolor": color(number),
            "name": escape(f"{name}: {100 * totals[name] / total:.1f} % of the GPU time"),
            "hovertemplate": f"{escape(name)}: %{{y:.2f}} GPUs<extra></extra>",
            "x": edges,
            "y": rounded([*values, values[-1]]),
        }
        for number, (name, values) in enumerate(layers.items())
    ]
    y_axis = {"title": {"text": "GPUs held"}, "rangemode": "tozero"}
    return Plot(f"GPUs held, {outcome.name}", traces, x_axis, y_axis, 380, over_time=True)


def _layer_of(intervals: Iterable[Interval]) -> Mapping[str, str]:
    """Return the name of each job's layer, in the order of the layers: the largest jobs, or the smallest sizes, first."""
    held: defaultdict[str, float] = defaultdict(float)
    most: defaultdict[str, float] = defaultdict(float)
    for interval in intervals:
        held[interval.job] += _gpus(interval) * (interval.to_seconds - interval.from_seconds)
        most[interval.job] = max(most[interval.job], _gpus(interval))
    if len(held) <= MOST_LAYERS:
        return {job: job for job in sorted(held, key=lambda job: (-held[job], job))}
    names = {
        job: next(f"jobs of {name}" for bound, name in _SIZES if gpus <= bound) for job, gpus in most.items()
    }
    return {job: names[job] for job in sorted(most, key=lambda job: (most[job], job))}


def _layers(outcome: Outcome, layer_of: Mapping[str, str]) -> dict[str, list[float]]:
    """Return the mean GPUs of each layer in every bucket."""
    buckets = Buckets(outcome.from_seconds, outcome.to_seconds, BUCKETS)
    layers = {name: [0.0] * BUCKETS for name in layer_of.values()}
    for interval in outcome.intervals:
        layer = layers[layer_of[interval.job]]
        for bucket, part in buckets.parts(interval.from_seconds, interval.to_seconds):
            layer[bucket] += part * _gpus(interval)
    return layers


def _gpus(interval: Interval) -> float:
    return interval.share_percent * len(interval.gpus) / 100
