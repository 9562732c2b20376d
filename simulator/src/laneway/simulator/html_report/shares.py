"""Plot: which jobs have the GPUs over time; the largest by GPU time, and all others together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from laneway.simulator.history import Interval
from laneway.simulator.html_report.axes import WIDTH, frame, x_axis, y_axis
from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.svg import COLORS, color, legend, picture, polygon

HEIGHT = 260
BUCKETS = 240
REST = ""
"""Stands for all other jobs together."""


def shares(outcome: Outcome) -> str:
    """Return the plot: GPUs held, in fractions, stacked by job."""
    if not outcome.intervals:
        return "<p>No job has held a GPU.</p>"
    held: defaultdict[str, float] = defaultdict(float)
    for interval in outcome.intervals:
        held[interval.job] += _gpus(interval) * (interval.to_seconds - interval.from_seconds)
    largest = sorted(held, key=lambda job: (-held[job], job))[: COLORS - 1]
    names = [*largest, REST] if len(held) > len(largest) else largest
    layers = _layers(outcome, largest)
    total = sum(held.values())
    heights = [sum(layers[name][bucket] for name in names) for bucket in range(BUCKETS)]
    span = outcome.to_seconds - outcome.from_seconds
    x, y = x_axis(0.0, span), y_axis(max(heights), HEIGHT)
    body = list(frame(x, y, "time since the first submission", "GPUs held, job by job"))
    edges = [x.at(edge) for edge in Buckets(0.0, span, BUCKETS).edges()]
    below = [0.0] * BUCKETS
    labels = []
    for number, name in enumerate(names):
        css = color(number) if name else "rest"
        above = [base + more for base, more in zip(below, layers[name], strict=True)]
        time = held[name] if name else total - sum(held[job] for job in largest)
        title = name or f"{len(held) - len(largest)} other jobs"
        words = f"{title}: {100 * time / total:.1f} % of the GPU time held"
        outline = [(x_, y.at(value)) for x_, value in _outline(edges, above)]
        outline += [(x_, y.at(value)) for x_, value in reversed(_outline(edges, below))]
        body.append(polygon(outline, css, words))
        labels.append((css, words))
        below = above
    return picture(WIDTH, HEIGHT, f"GPUs held by each job, {outcome.name}", body) + legend(labels)


def _layers(outcome: Outcome, largest: Sequence[str]) -> dict[str, list[float]]:
    """Return the mean GPUs of each named job, and of the rest, in every bucket."""
    buckets = Buckets(outcome.from_seconds, outcome.to_seconds, BUCKETS)
    layers = {name: [0.0] * BUCKETS for name in [*largest, REST]}
    for interval in outcome.intervals:
        layer = layers.get(interval.job, layers[REST])
        for bucket, part in buckets.parts(interval.from_seconds, interval.to_seconds):
            layer[bucket] += part * _gpus(interval)
    return layers


def _outline(edges: Sequence[float], values: Sequence[float]) -> list[tuple[float, float]]:
    """Return the corners of a flight of steps."""
    corners = []
    for number, value in enumerate(values):
        corners += [(edges[number], value), (edges[number + 1], value)]
    return corners


def _gpus(interval: Interval) -> float:
    return interval.share_percent * len(interval.gpus) / 100
