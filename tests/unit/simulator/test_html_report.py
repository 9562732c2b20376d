"""The page: whole, self-contained, true to the simulation, and bounded in size."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from laneway.scheduling import policies
from laneway.simulator import Outcome, Simulation, TraceJob, html_page, make_nodes, outcome_of, report
from laneway.simulator.history import Interval, Phase
from laneway.simulator.html_report.buckets import Buckets
from laneway.simulator.html_report.gantt import MOST_HOLDS, gantt, rows_of
from laneway.simulator.html_report.jct_cdf import jct_cdf
from laneway.simulator.html_report.plot import Plot, line, plotly_script
from laneway.simulator.html_report.queue_plot import queue_plot
from laneway.simulator.html_report.shares import shares
from laneway.simulator.units import number_text, rounded, time_text

from tests.unit.simulator.builders import SMALL, a_job, sharing_memory, simulated

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


def without_library(page: str) -> str:
    """The page without Plotly's own script."""
    assert page.count(plotly_script()) == 1
    return page.replace(plotly_script(), "")


def traces(plot: Plot | None) -> Sequence[Mapping[str, Any]]:
    assert plot is not None
    return plot.traces


def many(jobs: int) -> list[TraceJob]:
    return [
        a_job(f"j{number}", 5.0 + number % 50, submit=number * 0.7, gpus=1 + number % 4)
        for number in range(jobs)
    ]


def test_the_page_is_well_formed_and_makes_no_request() -> None:
    text = without_library(a_page(*[simulated(*many(30), nodes="2x4", order="fifo")] * 2))
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert text.count('class="plotly-graph-div"') == 2 + 2 * 2
    assert not {name for name, _ in parser.attributes} & {"src", "href", "onload", "onclick"}
    (policy,) = [
        value or "" for name, value in parser.attributes if name == "content" and "-src" in str(value)
    ]
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy
    for word in ("http:", "https:", "@import", "url("):
        assert word not in text
    assert '"modeBarButtonsToRemove": ["sendChartToCloud"' in text
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
    simulation = simulated(a_job("<b>&'\"", 10), order="fifo")
    assert "<b>" not in without_library(a_page(simulation))
    (bars,) = traces(gantt(an_outcome(simulation), 100.0))
    assert bars["hovertext"][0].startswith("&lt;b&gt;&amp;&#x27;&quot; running"), "Plotly decodes entities"


def test_the_library_is_imported_for_the_page_alone() -> None:
    code = "import sys, laneway.simulator, laneway.cli.main; sys.exit('plotly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_interrupted_simulation_is_marked() -> None:
    simulation = Simulation(many(50), make_nodes("2x4"), policies(order="fifo"))
    while simulation.finished < 10:
        simulation.step()
    assert "Interrupted: the last policy" in without_library(a_page(simulation, interrupted=True))
    assert "Interrupted" not in without_library(a_page(simulation))


def test_an_empty_simulation_has_a_page() -> None:
    text = without_library(a_page(Simulation([], make_nodes("1x1"), policies())))
    assert "No job has finished." in text
    assert "Nothing has happened." in text


def test_every_hold_is_drawn_where_they_are_few() -> None:
    simulation = simulated(a_job("a", 10, gpus=2), a_job("b", 5, submit=10), nodes="1x2", order="fifo")
    (bars,) = traces(gantt(an_outcome(simulation), 100.0))
    assert bars["hovertext"] == [
        "a running, 100 % of 2 GPU, 10 s from 0 s",
        "b running, 100 % of 1 GPU, 5 s from 10 s",
    ], "a's two rows are one rectangle"
    assert (bars["base"], bars["x"], bars["y"]) == ([0, 10], [10, 5], [1, 0.5])


def test_holds_that_share_a_gpu_lie_beside_one_another() -> None:
    simulation = simulated(
        a_job("long", 100, profile=SMALL),
        a_job("short", 20, submit=50, profile=SMALL),
        nodes=sharing_memory("1x1", offered_percent=200),
        thresholds_gpu_seconds=[30],
        promotion_factor=0,
    )
    drawn = traces(gantt(an_outcome(simulation), 100.0))
    assert [bars["name"] for bars in drawn] == ["running", "paused or offloaded"]
    boxes = [
        box for bars in drawn for box in zip(bars["base"], bars["x"], bars["y"], bars["width"], strict=True)
    ]
    for number, (start, span, y, height) in enumerate(boxes):
        for other_start, other_span, other_y, other_height in boxes[:number]:
            apart = start + span <= other_start + 1e-3 or other_start + other_span <= start + 1e-3
            assert apart or abs(y - other_y) >= (height + other_height) / 2


def test_jobs_that_never_finish_keep_the_distribution_below_1() -> None:
    outcome = an_outcome(
        simulated(a_job("a", 10), a_job("b", 30), a_job("huge", 1, gpus=9), order="fifo", nodes="1x2")
    )
    (line,) = traces(jct_cdf([outcome]))
    assert line["x"] == [10, 10, 30, 30]
    assert line["y"] == pytest.approx([0, 1 / 3, 2 / 3, 2 / 3], abs=1e-5)


def test_the_distribution_has_a_logarithmic_axis_where_times_differ_much() -> None:
    def axis(*seconds: float) -> object:
        jobs = [a_job(f"j{each}", each) for each in seconds]
        plot = jct_cdf([an_outcome(simulated(*jobs, nodes="1x4", order="fifo"))])
        assert plot is not None
        return plot.x_axis.get("type")

    assert axis(3, 5000) == "log"
    assert axis(3, 299) is None


def test_a_long_history_does_not_make_the_page_larger() -> None:
    simulation = simulated(*many(3000), nodes="8x4", order="fifo")
    assert sum(1 for interval in simulation.intervals()) > MOST_HOLDS
    text = a_page(simulation)
    assert len(without_library(text)) < 400_000
    (trace,) = traces(gantt(an_outcome(simulation), 100.0))
    assert trace["type"] == "heatmap"


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


def test_few_jobs_have_a_layer_each_and_many_one_for_each_size() -> None:
    jobs = [a_job(f"j{number:02}", 1.0 + number, submit=number * 100.0) for number in range(10)]
    names = [trace["name"] for trace in traces(shares(an_outcome(simulated(*jobs, order="fifo")), 1000.0))]
    assert (len(names), names[0]) == (10, "j09: 18.2 % of the GPU time")
    sizes = (1, 2, 2, 3, 4, 5, 8, 1, 1, 1, 1, 1)
    jobs = [a_job(f"j{number:02}", 10.0, gpus=gpus) for number, gpus in enumerate(sizes)]
    outcome = an_outcome(simulated(*jobs, order="fifo", nodes="4x8"))
    assert [trace["name"] for trace in traces(shares(outcome, 10.0))] == [
        "jobs of up to 1 GPU: 20.0 % of the GPU time",
        "jobs of 2 GPUs: 13.3 % of the GPU time",
        "jobs of 3 to 4 GPUs: 23.3 % of the GPU time",
        "jobs of 5 to 8 GPUs: 43.3 % of the GPU time",
    ]


def test_the_plots_of_all_policies_have_one_time_axis() -> None:
    outcomes = [
        an_outcome(simulated(a_job("a", 100), a_job("b", 100), nodes=nodes, order="fifo"), nodes)
        for nodes in ("1x1", "1x2")
    ]
    plots = [plot(outcome, 200.0) for plot in (gantt, shares) for outcome in outcomes]
    plots.append(queue_plot(outcomes, 200.0))
    axes = [plot.x_axis for plot in plots if plot is not None and plot.over_time]
    assert len(axes) == 5
    assert all(axis == axes[0] for axis in axes)


def test_lines_that_lie_on_one_another_can_be_told_apart() -> None:
    styles = {(line(number)["color"], line(number)["dash"]) for number in range(30)}
    assert len(styles) == len({color for color, _ in styles}) == 30
    assert line(0)["dash"] != line(1)["dash"]


def test_shares_of_a_bucket_add_up_to_what_was_held() -> None:
    outcome = an_outcome(simulated(a_job("a", 100, gpus=3), a_job("b", 100), nodes="1x4", order="fifo"))
    a, b = traces(shares(outcome, 100.0))
    assert a["stackgroup"] == b["stackgroup"]
    assert (set(a["y"]), set(b["y"])) == ({3.0}, {1.0})


def test_averages_over_buckets_keep_the_whole() -> None:
    buckets = Buckets(0.0, 10.0, 4)
    assert buckets.averages([(0.0, 2.0), (5.0, 0.0), (7.5, 4.0)]) == [2.0, 2.0, 0.0, 4.0]
    assert buckets.averages([(1.25, 1.0), (2.5, 0.0)]) == [0.5, 0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("seconds", "want"), [(0.25, "0.25 s"), (35, "35 s"), (150, "2.5 min"), (9000, "2.5 h"), (4e6, "46.3 d")]
)
def test_times_are_written_for_people(seconds: float, want: str) -> None:
    assert time_text(seconds) == want


def test_numbers_are_short() -> None:
    assert number_text(1234567.0) == "1,234,567"
    assert rounded([1 / 3, 1234567.0]) == [0.333333, 1234570.0]


def test_an_interval_that_ends_with_the_simulation_fills_the_last_bucket() -> None:
    intervals: Sequence[Interval] = [Interval("a", Phase.RUNNING, 0.0, 10.0, ("g",), 100)]
    parts = dict(Buckets(0.0, 10.0, 7).parts(intervals[0].from_seconds, intervals[0].to_seconds))
    assert parts == {number: pytest.approx(1.0) for number in range(7)}
