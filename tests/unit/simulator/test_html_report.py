"""The page: whole, self-contained, true to the simulation, and bounded in size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from laneway.scheduling import policies
from laneway.simulator import Outcome, Simulation, TraceJob, html_page, make_nodes, outcome_of, report
from laneway.simulator.history import Interval, Phase
from laneway.simulator.html_report.axes import number_text, time_text, x_axis, x_axis_of_durations
from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.gantt import MOST_HOLDS, gantt, rows_of
from laneway.simulator.html_report.shares import shares

from tests.unit.simulator.builders import SMALL, a_job, parking, simulated

VOID = {"meta", "br", "hr", "link", "img", "input"}


class Balanced(HTMLParser):
    """Fails where an element is not closed, or closed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def an_outcome(simulation: Simulation, policy: str = "fifo") -> Outcome:
    return outcome_of(simulation, report(simulation, policy=policy, placement="best-fit"))


def a_page(*simulations: Simulation, interrupted: bool = False) -> str:
    return html_page(
        [an_outcome(simulation, f"policy{number}") for number, simulation in enumerate(simulations)],
        trace="trace.csv",
        cluster="2x4",
        parameters=[{"restart_seconds of the costs": 30.0, "thresholds": (1.0, 2.0)}] * len(simulations),
        interrupted=interrupted,
    )


def drawings(text: str) -> list[ElementTree.Element]:
    """The page's SVG, each read by an XML parser."""
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def many(jobs: int) -> list[TraceJob]:
    return [
        a_job(f"j{number}", 5.0 + number % 50, submit=number * 0.7, gpus=1 + number % 4)
        for number in range(jobs)
    ]


def test_the_page_is_well_formed_and_asks_for_nothing_from_outside() -> None:
    text = a_page(simulated(*many(30), nodes="2x4"), simulated(*many(30), nodes="2x4", order="fifo"))
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert len(drawings(text)) == 2 + 2 * 2
    assert not {name for name, _ in parser.attributes} & {"src", "href", "onload", "onclick", "style"}
    for word in ("http:", "https:", "<script", "@import", "url("):
        assert word not in text
    assert "prefers-color-scheme: dark" in text
    for word in (
        "trace.csv",
        "2x4",
        "policy0 / best-fit",
        "policy1 / best-fit",
        "restart_seconds of the costs",
    ):
        assert word in text


def test_names_are_text_and_never_markup() -> None:
    text = a_page(simulated(a_job("<b>&'\"", 10), order="fifo"))
    assert "<b>" not in text
    assert any(
        "<b>&'\"" in (title.text or "") for drawing in drawings(text) for title in drawing.iter("title")
    )


def test_an_interrupted_simulation_is_said_to_be_one() -> None:
    simulation = Simulation(many(50), make_nodes("2x4"), policies(order="fifo"))
    while simulation.finished < 10:
        simulation.step()
    assert "Interrupted: the last policy" in a_page(simulation, interrupted=True)
    assert "Interrupted" not in a_page(simulation)


def test_nothing_at_all_can_be_shown() -> None:
    text = a_page(Simulation([], make_nodes("1x1"), policies()))
    assert "No job has finished." in text
    assert "Nothing has happened." in text


def test_every_hold_is_drawn_where_they_are_few() -> None:
    simulation = simulated(a_job("a", 10, gpus=2), a_job("b", 5, submit=10), nodes="1x2", order="fifo")
    (drawing,) = drawings(gantt(an_outcome(simulation)))
    titles = [title.text for rect in drawing.iter("rect") for title in rect.iter("title")]
    assert titles == [
        "a running, 100 % of 2 GPU, 10 s from 0 s",
        "b running, 100 % of 1 GPU, 5 s from 10 s",
    ], "a's two rows are one rectangle"


def test_holds_that_share_a_gpu_lie_beside_one_another() -> None:
    simulation = simulated(
        a_job("long", 100, profile=SMALL),
        a_job("short", 20, submit=50, profile=SMALL),
        nodes=parking("1x1", offered_percent=200),
        thresholds_gpu_seconds=[30],
        promotion_factor=0,
    )
    (drawing,) = drawings(gantt(an_outcome(simulation)))
    boxes = [
        (float(r.get("x", "")), float(r.get("width", "")), float(r.get("y", "")), float(r.get("height", "")))
        for r in drawing.iter("rect")
    ]
    for number, (x, width, y, height) in enumerate(boxes):
        for other_x, other_width, other_y, other_height in boxes[:number]:
            beside = x + width <= other_x + 0.2 or other_x + other_width <= x + 0.2
            assert beside or y + height <= other_y or other_y + other_height <= y


def test_a_long_history_makes_no_larger_a_page() -> None:
    simulation = simulated(*many(3000), nodes="8x4", order="fifo")
    assert sum(1 for interval in simulation.intervals()) > MOST_HOLDS
    text = a_page(simulation)
    assert len(text) < 400_000
    assert "Too many holds to draw each" in text


@pytest.mark.parametrize(
    ("nodes", "rows", "first"),
    [
        ("8x8", 64, "n0000-0"),
        ("9x8", 9, "n0000"),
        ("65x1", 33, "n0000 to n0001"),
        ("1000x8", 63, "n0000 to n0015"),
    ],
)
def test_rows_are_gpus_or_nodes_or_groups_of_nodes(nodes: str, rows: int, first: str) -> None:
    named = [(node.name, tuple(gpu.uuid for gpu in node.gpus)) for node in make_nodes(nodes)]
    found = rows_of(named)
    assert (len(found), found[0].name) == (rows, first)
    assert sum(len(row.gpus) for row in found) == sum(len(gpus) for _, gpus in named)


def test_shares_name_the_largest_jobs_and_sum_up_the_rest() -> None:
    jobs = [a_job(f"j{number:02}", 1.0 + number, submit=number * 100.0) for number in range(20)]
    text = shares(an_outcome(simulated(*jobs, order="fifo")))
    assert "j19: 9.5 % of the GPU time held" in text
    assert "11 other jobs: 31.4 % of the GPU time held" in text


def test_shares_of_a_bucket_add_up_to_what_was_held() -> None:
    text = shares(an_outcome(simulated(a_job("a", 100, gpus=3), a_job("b", 100), nodes="1x4", order="fifo")))
    (drawing,) = drawings(text)
    heights = [
        [float(point.split(",")[1]) for point in str(area.get("points")).split()]
        for area in drawing.iter("polygon")
    ]
    assert max(heights[1]) == min(heights[0]), "b lies on a"
    bottom, top = max(heights[0]), min(heights[1])
    assert (bottom - min(heights[0])) / (bottom - top) == pytest.approx(3 / 4, abs=0.01)


def test_averages_over_buckets_keep_the_whole() -> None:
    buckets = Buckets(0.0, 10.0, 4)
    assert buckets.averages([(0.0, 2.0), (5.0, 0.0), (7.5, 4.0)]) == [2.0, 2.0, 0.0, 4.0]
    assert buckets.averages([(1.25, 1.0), (2.5, 0.0)]) == [0.5, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("seconds", "want"), [(0.25, "0.25 s"), (35, "35 s"), (150, "2.5 min"), (9000, "2.5 h"), (4e6, "46.3 d")]
)
def test_times_are_written_for_people(seconds: float, want: str) -> None:
    assert time_text(seconds) == want


def test_axes_have_a_few_round_ticks() -> None:
    for high in (0.003, 1.0, 7.0, 99.0, 12345.0, 3e6):
        ticks = list(x_axis(0.0, high).ticks())
        assert 3 <= len(ticks) <= 7
        assert all(later > earlier for earlier, later in pairwise(ticks))
        assert ticks[-1] <= high * 1.0001
    assert list(x_axis_of_durations([3.0, 5000.0]).ticks()) == [1.0, 10.0, 100.0, 1000.0, 10000.0]
    assert number_text(1234567.0) == "1,234,567"


def test_an_interval_that_ends_with_the_simulation_fills_the_last_bucket() -> None:
    intervals: Sequence[Interval] = [Interval("a", Phase.RUNNING, 0.0, 10.0, ("g",), 100)]
    parts = dict(Buckets(0.0, 10.0, 7).parts(intervals[0].from_seconds, intervals[0].to_seconds))
    assert parts == {number: pytest.approx(1.0) for number in range(7)}
