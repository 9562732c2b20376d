"""Plot: which job holds which GPU when. Every hold if there are few; the occupancy of each row if there are many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from laneway.simulator.history import Interval, Phase
from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.plot import Plot, color, time_axis
from laneway.simulator.units import rounded, time_text

MOST_ROWS = 64
MOST_HOLDS = 2500
"""With more rectangles than that, the plot shows occupancy."""

BUCKETS = 200
_MOST_PIXELS = 480
_PIXELS_PER_ROW = 24
_PIXELS_AROUND = 110
"""Axis and legend."""

_SHOWN_PHASES: Mapping[str, tuple[tuple[Phase, ...], float]] = {
    "running": ((Phase.RUNNING,), 1.0),
    "starting or ending": ((Phase.STARTING, Phase.LEAVING), 0.45),
    "paused or offloaded": ((Phase.PAUSED,), 0.2),
}
"""By name in the legend: the phases and their opacity."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the plot: a GPU, a node, or several nodes."""

    name: str
    gpus: tuple[str, ...]


def gantt(outcome: Outcome, span_seconds: float) -> Plot | None:
    """Return the plot, on the time axis of the longest simulation; None if no job has held a GPU."""
    if not outcome.intervals:
        return None
    rows = rows_of(outcome.gpus_by_node)
    unit_seconds, x_axis = time_axis(span_seconds)
    holds = _holds(outcome.intervals, rows) if all(len(row.gpus) == 1 for row in rows) else None
    if holds is not None and len(holds) <= MOST_HOLDS:
        traces = list(_bars(outcome, holds, unit_seconds))
        stride = -(-len(rows) // 24)
        y_axis: dict[str, Any] = {
            "range": [len(rows), 0],
            "tickvals": [number + 0.5 for number in range(0, len(rows), stride)],
            "ticktext": [escape(row.name) for row in rows[::stride]],
            "showgrid": False,
        }
    else:
        traces = [_occupancy(outcome, rows, unit_seconds)]
        y_axis = {"type": "category", "autorange": "reversed", "showgrid": False}
    return Plot(
        f"GPUs over time, {outcome.name}",
        traces,
        x_axis,
        y_axis | {"automargin": True},
        min(_MOST_PIXELS, _PIXELS_PER_ROW * len(rows)) + _PIXELS_AROUND,
        {"barmode": "overlay", "hovermode": "closest"},
        over_time=True,
    )


def rows_of(gpus_by_node: Sequence[tuple[str, tuple[str, ...]]]) -> list[Row]:
    """Return a row per GPU; if those are too many, per node; else per group of nodes."""
    gpus = [uuid for _, uuids in gpus_by_node for uuid in uuids]
    if len(gpus) <= MOST_ROWS:
        return [Row(uuid, (uuid,)) for uuid in gpus]
    nodes_per_row = -(-len(gpus_by_node) // MOST_ROWS)
    rows = []
    for start in range(0, len(gpus_by_node), nodes_per_row):
        group = gpus_by_node[start : start + nodes_per_row]
        name = group[0][0] if len(group) == 1 else f"{group[0][0]} to {group[-1][0]}"
        rows.append(Row(name, tuple(uuid for _, uuids in group for uuid in uuids)))
    return rows


@dataclass(frozen=True, slots=True)
class Hold:
    """A job's hold on neighboring rows, or on part of one."""

    interval: Interval
    top: float
    bottom: float
    """In rows from the top."""


def _holds(intervals: Sequence[Interval], rows: Sequence[Row]) -> list[Hold]:
    """Return the rectangles: holds of a shared GPU side by side; otherwise neighboring rows joined."""
    by_gpu = _by_gpu(intervals)
    slots = {row.gpus[0]: list(_slots(by_gpu[row.gpus[0]])) for row in rows}
    most = max((slot + 1 for used in slots.values() for slot in used), default=1)
    if most == 1:
        number_of = {row.gpus[0]: number for number, row in enumerate(rows)}
        return [
            Hold(interval, first, last + 1)
            for interval in intervals
            for first, last in _stretches(sorted(number_of[uuid] for uuid in interval.gpus))
        ]
    return [
        Hold(interval, number + slot / most, number + (slot + 1) / most)
        for number, row in enumerate(rows)
        for interval, slot in zip(by_gpu[row.gpus[0]], slots[row.gpus[0]], strict=True)
    ]


def _stretches(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive numbers."""
    first = 0
    for index, number in enumerate(numbers):
        if index + 1 == len(numbers) or numbers[index + 1] != number + 1:
            yield numbers[first], number
            first = index + 1


def _bars(outcome: Outcome, holds: Sequence[Hold], unit_seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the bars of each phase; a job has the same color in all of them."""
    colors: dict[str, str] = {}
    for hold in holds:
        colors.setdefault(hold.interval.job, color(len(colors)))
    for name, (phases, opacity) in _SHOWN_PHASES.items():
        shown = [hold for hold in holds if hold.interval.phase in phases]
        if not shown:
            continue
        starts = [hold.interval.from_seconds - outcome.from_seconds for hold in shown]
        spans = [hold.interval.to_seconds - hold.interval.from_seconds for hold in shown]
        yield {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "opacity": opacity,
            "base": rounded(start / unit_seconds for start in starts),
            "x": rounded(span / unit_seconds for span in spans),
            "y": rounded((hold.top + hold.bottom) / 2 for hold in shown),
            "width": rounded(0.94 * (hold.bottom - hold.top) for hold in shown),
            "marker": {"color": [colors[hold.interval.job] for hold in shown], "line": {"width": 0}},
            "hovertext": [
                escape(
                    f"{hold.interval.job} {hold.interval.phase}, {hold.interval.share_percent} % of "
                    f"{len(hold.interval.gpus)} GPU, {time_text(span)} from {time_text(start)}"
                )
                for hold, start, span in zip(shown, starts, spans, strict=True)
            ],
            "hovertemplate": "%{hovertext}<extra></extra>",
        }


def _by_gpu(intervals: Iterable[Interval]) -> defaultdict[str, list[Interval]]:
    by_gpu: defaultdict[str, list[Interval]] = defaultdict(list)
    for interval in sorted(intervals, key=lambda each: (each.from_seconds, each.job)):
        for uuid in interval.gpus:
            by_gpu[uuid].append(interval)
    return by_gpu


def _slots(intervals: Iterable[Interval]) -> Iterator[int]:
    """Yield the slot of each hold on a GPU: its job's previous slot if free, else the first free one."""
    until: list[float] = []
    job: list[str] = []
    for interval in intervals:
        free = [place for place, end in enumerate(until) if end <= interval.from_seconds]
        own = [place for place in free if job[place] == interval.job]
        place = (own or free or [len(until)])[0]
        if place == len(until):
            until.append(0.0)
            job.append("")
        until[place], job[place] = interval.to_seconds, interval.job
        yield place


def _occupancy(outcome: Outcome, rows: Sequence[Row], unit_seconds: float) -> dict[str, Any]:
    """Return a heat map: the mean part of each row's GPUs that was held, in percent."""
    edges = Buckets(0.0, outcome.to_seconds - outcome.from_seconds, BUCKETS).edges()
    return {
        "type": "heatmap",
        "x": rounded(edge / unit_seconds for edge in edges),
        "y": [escape(row.name) for row in rows],
        "z": [[round(100 * cell, 1) for cell in cells] for cells in _cells(outcome, rows)],
        "zmin": 0,
        "zmax": 100,
        "colorscale": [[0, "rgba(59,130,246,0)"], [1, "rgba(59,130,246,1)"]],
        "colorbar": {"ticksuffix": " %", "outlinewidth": 0, "thickness": 12},
        "hovertemplate": "%{y}: %{z} % held at %{x}<extra></extra>",
    }


def _cells(outcome: Outcome, rows: Sequence[Row]) -> list[list[float]]:
    """Return the held part of each row's GPUs in every bucket; a shared GPU counts at most once."""
    buckets = Buckets(outcome.from_seconds, outcome.to_seconds, BUCKETS)
    row_of = {uuid: number for number, row in enumerate(rows) for uuid in row.gpus}
    held = {uuid: [0.0] * BUCKETS for uuid in row_of}
    for interval in outcome.intervals:
        parts = list(buckets.parts(interval.from_seconds, interval.to_seconds))
        for uuid in interval.gpus:
            cells = held[uuid]
            for bucket, part in parts:
                cells[bucket] += part * interval.share_percent / 100
    sums = [[0.0] * BUCKETS for _ in rows]
    for uuid, cells in held.items():
        row = sums[row_of[uuid]]
        for bucket, cell in enumerate(cells):
            row[bucket] += min(1.0, cell)
    return [[cell / len(row.gpus) for cell in cells] for row, cells in zip(rows, sums, strict=True)]
