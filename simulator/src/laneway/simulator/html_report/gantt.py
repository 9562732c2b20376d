"""Plot: who holds which GPU when. Every hold where they are few; how full each row is where they are many."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from laneway.simulator.history import Interval, Phase
from laneway.simulator.html_report.axes import BOTTOM, TOP, WIDTH, Axis, along, time_text, x_axis
from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.svg import color, element, label, legend, picture, tooltip

MOST_ROWS = 64
MOST_HOLDS = 2500
"""More rectangles than that, and holds are drawn as how full a row is."""

BUCKETS = 200
LEVELS = 8
_HEIGHT = 448


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the drawing: a GPU, a node, or several nodes."""

    name: str
    gpus: tuple[str, ...]


def gantt(outcome: Outcome) -> str:
    """Return the plot."""
    if not outcome.intervals:
        return "<p>No job has held a GPU.</p>"
    rows = rows_of(outcome.gpus_by_node)
    height = min(_HEIGHT, 24 * len(rows)) + TOP + BOTTOM
    x = x_axis(0.0, outcome.to_seconds - outcome.from_seconds)
    y = Axis(0.0, float(len(rows)), TOP, height - BOTTOM)
    body = list(_names(rows, x, y))
    holds = _holds(outcome.intervals, rows) if all(len(row.gpus) == 1 for row in rows) else None
    if holds is not None and len(holds) <= MOST_HOLDS:
        body += _rectangles(outcome, holds, x, y)
        below = legend([("wait", "starts or leaves"), ("parked", "paused or offloaded")])
        words = "Each colour is a job; point at one for its name."
    else:
        body += _fullness(outcome, rows, x, y)
        below = legend((f"level l{level}", f"{100 * level // LEVELS} %") for level in range(1, LEVELS + 1))
        words = (
            "Too many holds to draw each: the darker, the more of a row was held, as a mean over "
            f"1/{BUCKETS} of the time."
        )
    return f"<p>{words}</p>" + picture(WIDTH, height, f"GPUs over time, {outcome.name}", body) + below


def rows_of(gpus_by_node: Sequence[tuple[str, tuple[str, ...]]]) -> list[Row]:
    """Return a row for each GPU; where those are too many, for each node; else for as many nodes as it takes."""
    gpus = [uuid for _, uuids in gpus_by_node for uuid in uuids]
    if len(gpus) <= MOST_ROWS:
        return [Row(uuid, (uuid,)) for uuid in gpus]
    each = -(-len(gpus_by_node) // MOST_ROWS)
    rows = []
    for begin in range(0, len(gpus_by_node), each):
        group = gpus_by_node[begin : begin + each]
        name = group[0][0] if len(group) == 1 else f"{group[0][0]} to {group[-1][0]}"
        rows.append(Row(name, tuple(uuid for _, uuids in group for uuid in uuids)))
    return rows


def _names(rows: Sequence[Row], x: Axis, y: Axis) -> Iterator[str]:
    yield from along(x, y.from_pixel, y.to_pixel, "time since the first submission")
    stride = -(-len(rows) // 24)
    for number in range(0, len(rows), stride):
        name = rows[number].name
        short = name if len(name) <= 9 else f"…{name[-8:]}"
        yield label(x.from_pixel - 6, y.at(number + 0.5) + 4, short, "end")


@dataclass(frozen=True, slots=True)
class Hold:
    """A job's hold on neighbouring rows, or on part of one."""

    interval: Interval
    top: float
    bottom: float
    """In rows from the top."""


def _holds(intervals: Sequence[Interval], rows: Sequence[Row]) -> list[Hold]:
    """Return what is to be drawn of each row's GPU: beside one another where one is shared, else neighbours joined."""
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


def _rectangles(outcome: Outcome, holds: Iterable[Hold], x: Axis, y: Axis) -> Iterator[str]:
    colors: dict[str, int] = {}
    for hold in holds:
        interval = hold.interval
        begin = interval.from_seconds - outcome.from_seconds
        end = interval.to_seconds - outcome.from_seconds
        words = (
            f"{interval.job} {interval.phase}, {interval.share_percent} % of {len(interval.gpus)} GPU, "
            f"{time_text(end - begin)} from {time_text(begin)}"
        )
        yield element(
            "rect",
            tooltip(words),
            x=x.at(begin),
            y=y.at(hold.top) + 0.5,
            width=max(0.5, x.at(end) - x.at(begin)),
            height=max(0.5, y.at(hold.bottom) - y.at(hold.top) - 1.0),
            class_=f"area {color(colors.setdefault(interval.job, len(colors)))}{_PHASE_CLASSES[interval.phase]}",
        )


_PHASE_CLASSES = {
    Phase.RUNNING: "",
    Phase.STARTING: " wait",
    Phase.LEAVING: " wait",
    Phase.PARKED: " parked",
}


def _by_gpu(intervals: Iterable[Interval]) -> defaultdict[str, list[Interval]]:
    by_gpu: defaultdict[str, list[Interval]] = defaultdict(list)
    for interval in sorted(intervals, key=lambda each: (each.from_seconds, each.job)):
        for uuid in interval.gpus:
            by_gpu[uuid].append(interval)
    return by_gpu


def _slots(intervals: Iterable[Interval]) -> Iterator[int]:
    """Yield which of the places beside one another each hold has: its job's last one, else the first that is free."""
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


def _fullness(outcome: Outcome, rows: Sequence[Row], x: Axis, y: Axis) -> Iterator[str]:
    """Yield a path for each level of fullness: its cells, row by row, neighbours joined."""
    span = outcome.to_seconds - outcome.from_seconds
    edges = Buckets(0.0, span, BUCKETS).edges()
    paths: list[list[str]] = [[] for _ in range(LEVELS + 1)]
    for number, cells in enumerate(_cells(outcome, rows)):
        levels = [min(LEVELS, round(LEVELS * cell)) for cell in cells]
        begin = 0
        for end in range(1, BUCKETS + 1):
            if end == BUCKETS or levels[end] != levels[begin]:
                left, top = x.at(edges[begin]), y.at(number) + 0.5
                right, bottom = x.at(edges[end]), y.at(number + 1) - 0.5
                paths[levels[begin]].append(f"M{left:.1f} {top:.1f}H{right:.1f}V{bottom:.1f}H{left:.1f}Z")
                begin = end
    for level in range(1, LEVELS + 1):
        if paths[level]:
            yield element("path", d="".join(paths[level]), class_=f"level l{level}")


def _cells(outcome: Outcome, rows: Sequence[Row]) -> list[list[float]]:
    """Return how much of each row was held in every bucket, as a part of its GPUs; shared GPUs count up to whole."""
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
