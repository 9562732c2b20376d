"""SVG elements as text. Colours come from the page's style sheet, by class, so that they fit a dark page and a light one."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

COLORS = 10
"""So many colours for series: classes c0 to c9 of the style sheet."""


def element(tag: str, content: str = "", /, **attributes: object) -> str:
    """Return an element; ``class_`` is the attribute class, and other underscores are hyphens."""
    text = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_shown(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{text}>{content}</{tag}>" if content else f"<{tag}{text}/>"


def label(x: float, y: float, words: str, anchor: str = "start") -> str:
    """Return a text."""
    return element("text", escape(words), x=x, y=y, text_anchor=anchor)


def tooltip(words: str) -> str:
    """Return what is shown of an element that the mouse points at."""
    return element("title", escape(words))


def polyline(points: Iterable[tuple[float, float]], css: str) -> str:
    """Return a line through points."""
    return element("polyline", points=_points(points), class_=f"line {css}")


def polygon(points: Iterable[tuple[float, float]], css: str, words: str) -> str:
    """Return a filled area with a tooltip."""
    return element("polygon", tooltip(words), points=_points(points), class_=f"area {css}")


def picture(width: int, height: int, title: str, body: Iterable[str]) -> str:
    """Return a whole drawing."""
    return element(
        "svg",
        tooltip(title) + "".join(body),
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
    )


def color(number: int) -> str:
    """Return the class of a series."""
    return f"c{number % COLORS}"


def legend(names: Iterable[tuple[str, str]]) -> str:
    """Return a legend below a drawing.

    Args:
        names: class and name of each series.
    """
    items = "".join(f'<li><span class="swatch {css}"></span>{escape(name)}</li>' for css, name in names)
    return f'<ul class="legend">{items}</ul>'


def _points(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{_shown(x)},{_shown(y)}" for x, y in points)


def _shown(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
