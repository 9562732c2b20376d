"""The page: figures, parameters and plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from itertools import count

from laneway.simulator.html_report.gantt import gantt
from laneway.simulator.html_report.jct_cdf import jct_cdf
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.plot import Plot, plotly_script, rendered
from laneway.simulator.html_report.queue_plot import queue_plot
from laneway.simulator.html_report.shares import shares
from laneway.simulator.report import figures

_OPEN_AT_FIRST = 2
"""The plots of this many policies are open; those of the others open on a click."""

_NO_REQUESTS = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:"
"""The browser holds the page to making no request."""


def html_page(
    outcomes: Sequence[Outcome],
    *,
    trace: str,
    cluster: str,
    parameters: Sequence[Mapping[str, object]],
    interrupted: bool = False,
) -> str:
    """Return the report as HTML.

    Args:
        outcomes: one or more, one per policy.
        trace: the trace's name.
        cluster: a description of the nodes.
        parameters: all parameters by name, for each outcome.
        interrupted: whether the last outcome is incomplete.
    """
    start = min(outcome.from_seconds for outcome in outcomes)
    span = max(outcome.to_seconds for outcome in outcomes) - start
    identifiers = (f"plot-{number}" for number in count(1))

    def drawn(plot: Plot | None, without: str) -> str:
        return f"<p>{without}</p>" if plot is None else rendered(plot, next(identifiers))

    def policy(outcome: Outcome, *, open_at_first: bool) -> str:
        return (
            f"<details{' open' if open_at_first else ''}><summary>{escape(outcome.name)}</summary>"
            f"<h3>Occupancy</h3>{drawn(gantt(outcome, span), 'No job has held a GPU.')}"
            f"<h3>GPUs held</h3>{drawn(shares(outcome, span), 'No job has held a GPU.')}</details>"
        )

    folder = files(__package__)
    style = folder.joinpath("style.css").read_text(encoding="utf-8")
    script = folder.joinpath("page.js").read_text(encoding="utf-8")
    body = [
        f"<h1>{escape(trace)}</h1>",
        f"<p>Simulated on {escape(cluster)}. The plots over time have one axis: a zoom of one is one of all.</p>",
        '<p class="warning">Interrupted: the last policy is incomplete.</p>' if interrupted else "",
        _figures(outcomes),
        "<h2>Job completion times</h2>",
        drawn(jct_cdf(outcomes), "No job has finished."),
        "<h2>Queue</h2>",
        drawn(queue_plot(outcomes, span), "Nothing has happened."),
        "<h2>GPUs</h2>",
        *(policy(outcome, open_at_first=number < _OPEN_AT_FIRST) for number, outcome in enumerate(outcomes)),
        "<h2>Parameters</h2>",
        _table(["parameter", *(outcome.name for outcome in outcomes)], _parameters(parameters), css="words"),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_NO_REQUESTS}">'
        f'<title>{escape(trace)}</title><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{style}</style><script>{plotly_script()}</script></head><body>\n"
        + "\n".join(part for part in body if part)
        + f"\n<script>\n{script}</script></body></html>\n"
    )


def _figures(outcomes: Sequence[Outcome]) -> str:
    titles, *rows = figures([outcome.report for outcome in outcomes])
    unfinished = "".join(
        f"<p>{escape(outcome.name)}: unfinished: {escape(line)}</p>"
        for outcome in outcomes
        for line in outcome.report.unfinished
    )
    return _table(titles, rows) + unfinished


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], css: str = "figures") -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="{css}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _parameters(parameters: Sequence[Mapping[str, object]]) -> Iterator[list[str]]:
    names = dict.fromkeys(name for each in parameters for name in each)
    for name in names:
        yield [name, *("" if each.get(name) is None else str(each[name]) for each in parameters)]
