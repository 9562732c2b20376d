"""The page: figures, parameters and plots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from laneway.simulator.html_report.axes import number_text
from laneway.simulator.html_report.gantt import gantt
from laneway.simulator.html_report.jct_cdf import jct_cdf
from laneway.simulator.html_report.outcome import Outcome
from laneway.simulator.html_report.queue_plot import queue_plot
from laneway.simulator.html_report.shares import shares
from laneway.simulator.report import COLUMNS

_OPEN_AT_ONCE = 2
"""Of so many policies the plots are unfolded; of the others, on a click."""


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
        outcomes: of each policy; one or more.
        trace: its name.
        cluster: what it ran on, for people.
        parameters: everything that was chosen, by name; for each outcome.
        interrupted: whether the last outcome is not complete.
    """
    style = files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    body = [
        f"<h1>{escape(trace)}</h1>",
        f"<p>Simulated on {escape(cluster)}. Times in the table are seconds.</p>",
        '<p class="mark">Interrupted: the last policy is shown as far as it got.</p>' if interrupted else "",
        _figures(outcomes),
        "<h2>Job completion times</h2>",
        jct_cdf(outcomes),
        "<h2>Queue</h2>",
        queue_plot(outcomes),
        "<h2>GPUs</h2>",
        *(_policy(outcome, unfolded=number < _OPEN_AT_ONCE) for number, outcome in enumerate(outcomes)),
        "<h2>Parameters</h2>",
        _table(["parameter", *(outcome.name for outcome in outcomes)], _parameters(parameters), css="words"),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(trace)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>\n{style}</style></head><body>\n"
        + "\n".join(part for part in body if part)
        + "\n</body></html>\n"
    )


def _figures(outcomes: Sequence[Outcome]) -> str:
    rows = [[_cell(getattr(outcome.report, field)) for _, field in COLUMNS] for outcome in outcomes]
    unfinished = "".join(
        f"<p>{escape(outcome.name)}: unfinished: {escape(line)}</p>"
        for outcome in outcomes
        for line in outcome.report.unfinished
    )
    return _table([title.capitalize() for title, _ in COLUMNS], rows) + unfinished


def _policy(outcome: Outcome, *, unfolded: bool) -> str:
    return (
        f"<details{' open' if unfolded else ''}><summary>{escape(outcome.name)}</summary>"
        f"<h3>Occupancy</h3>{gantt(outcome)}<h3>Share of each job</h3>{shares(outcome)}</details>"
    )


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]], css: str = "figures") -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="{css}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _parameters(parameters: Sequence[Mapping[str, object]]) -> Iterator[list[str]]:
    names = dict.fromkeys(name for each in parameters for name in each)
    for name in names:
        yield [name, *("" if each.get(name) is None else str(each[name]) for each in parameters)]


def _cell(value: object) -> str:
    return number_text(value) if isinstance(value, float) else str(value)
