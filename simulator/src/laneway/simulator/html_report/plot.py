"""A plot as data for Plotly, and its rendering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from laneway.simulator.units import time_unit

COLORS = (
    "#3b82f6",
    "#e8710a",
    "#12a46f",
    "#e5484d",
    "#8b5cf6",
    "#b0703c",
    "#dd4aa0",
    "#6b8e23",
    "#a08f00",
    "#0e9bb5",
)
"""Colors of series: readable on a light and on a dark page."""

_GOLDEN_ANGLE = 137.508
"""Hues this far apart stay apart, however many there are."""

_DASHES = ("solid", "dot", "dash", "longdash", "dashdot", "longdashdot")

CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "plotlyServerURL": "",
    "modeBarButtonsToRemove": ["sendChartToCloud", "select2d", "lasso2d"],
}
"""Nothing leads out of the page: no link and no upload to Plotly's cloud."""

_NO_COLOR = "rgba(0,0,0,0)"
_AXIS = {"zeroline": False, "showline": False}


@dataclass(frozen=True, slots=True)
class Plot:
    """Series and axes in Plotly's terms. Colors of text and grids come from the page's style sheet."""

    title: str
    """For screen readers."""

    traces: Sequence[Mapping[str, Any]]
    x_axis: Mapping[str, Any]
    y_axis: Mapping[str, Any]
    height_pixels: int = 320
    layout: Mapping[str, Any] = field(default_factory=dict)
    """What is special about its layout."""

    over_time: bool = False
    """Whether its x axis is the page's time axis: a zoom of it is one of all such plots."""


def color(number: int) -> str:
    """Return the color of a series; no two are alike."""
    if number < len(COLORS):
        return COLORS[number]
    return f"hsl({number * _GOLDEN_ANGLE % 360:.0f},55%,52%)"


def line(number: int) -> dict[str, Any]:
    """Return the color and the dashes of a policy's line: one that runs below another shows through its gaps."""
    return {"color": color(number), "width": 2, "dash": _DASHES[number % len(_DASHES)]}


def time_axis(span_seconds: float) -> tuple[float, dict[str, Any]]:
    """Return the seconds of a fitting unit, and the axis of time since the first submission."""
    unit_seconds, unit = time_unit(span_seconds)
    return unit_seconds, {
        "title": {"text": f"time since the first submission ({unit})"},
        "range": [0, span_seconds / unit_seconds],
    }


def plotly_script() -> str:
    """Return Plotly's own JavaScript, to be put into a page once."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())


def rendered(plot: Plot, identifier: str) -> str:
    """Return the HTML of a plot.

    Args:
        plot: the plot.
        identifier: unique within the page.
    """
    from plotly.io import to_html

    layout = {
        "template": "none",
        "height": plot.height_pixels,
        "margin": {"l": 72, "r": 16, "t": 32, "b": 48},
        "paper_bgcolor": _NO_COLOR,
        "plot_bgcolor": _NO_COLOR,
        "font": {"family": "system-ui, sans-serif", "size": 12},
        "hoverlabel": {"bgcolor": "#1c2330", "font": {"color": "#ffffff"}},
        "modebar": {"bgcolor": _NO_COLOR},
        "legend": {"orientation": "h", "yanchor": "top", "y": -0.3},
        "showlegend": True,
        "xaxis": {**_AXIS, **plot.x_axis},
        "yaxis": {**_AXIS, **plot.y_axis},
        **plot.layout,
    }
    drawing = to_html(
        {"data": list(plot.traces), "layout": layout},
        config=CONFIG,
        include_plotlyjs=False,
        full_html=False,
        default_height=f"{plot.height_pixels}px",
        div_id=identifier,
    )
    over_time = " data-time" if plot.over_time else ""
    return f'<figure role="img" aria-label="{escape(plot.title)}"{over_time}>{drawing}</figure>'
