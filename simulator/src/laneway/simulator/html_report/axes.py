"""From values to places on a drawing, with ticks that people can read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from laneway.simulator.html_report.svg import element, label

WIDTH = 960
LEFT, RIGHT, TOP, BOTTOM = 64, 12, 10, 40

_TIME_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)
_LOG_FROM_RATIO = 100.0
"""Values that differ by so much are drawn over a logarithmic axis."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One direction of a plot."""

    low: float
    high: float
    from_pixel: float
    to_pixel: float
    logarithmic: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, low))
        part = (value - low) / (high - low) if high > low else 0.0
        return self.from_pixel + part * (self.to_pixel - self.from_pixel)

    def ticks(self) -> Iterator[float]:
        """Yield some five round values."""
        if self.logarithmic:
            for power in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1):
                yield 10.0**power
            return
        step = round_step((self.high - self.low) / 5)
        number = math.ceil(self.low / step)
        while number * step <= self.high * (1 + 1e-9):
            yield number * step
            number += 1


def x_axis(low: float, high: float) -> Axis:
    """Return the axis along a drawing of the usual width."""
    return Axis(low, max(high, low + 1e-9), LEFT, WIDTH - RIGHT)


def x_axis_of_durations(values: Sequence[float]) -> Axis:
    """Return the axis for durations: logarithmic where they differ much."""
    low, high = max(1e-3, min(values)), max(2e-3, max(values, default=0.0))
    if high / low < _LOG_FROM_RATIO:
        return x_axis(0.0, high)
    return Axis(
        10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)), LEFT, WIDTH - RIGHT, True
    )


def y_axis(high: float, height: int) -> Axis:
    """Return the axis up a drawing, from 0."""
    return Axis(0.0, max(high, 1e-9), height - BOTTOM, TOP)


def round_step(least: float) -> float:
    """Return the smallest of 1, 2, 2.5, 5 times a power of ten that is not below."""
    power = 10.0 ** math.floor(math.log10(least)) if least > 0 else 1.0
    return next(power * step for step in _ROUND if power * step >= least * (1 - 1e-9))


def frame(x: Axis, y: Axis, x_name: str, y_name: str) -> Iterator[str]:
    """Yield the axes of a plot: lines, ticks and names; x is a time in seconds, labelled in a unit that suits it."""
    yield from along(x, y.to_pixel, y.from_pixel, x_name)
    for value in y.ticks():
        yield element("line", x1=x.from_pixel, x2=x.to_pixel, y1=y.at(value), y2=y.at(value), class_="grid")
        yield label(x.from_pixel - 6, y.at(value) + 4, number_text(value), "end")
    middle = (y.from_pixel + y.to_pixel) / 2
    yield element(
        "text", y_name, x=14, y=middle, text_anchor="middle", transform=f"rotate(-90 14 {middle:.0f})"
    )


def along(x: Axis, top: float, bottom: float, name: str) -> Iterator[str]:
    """Yield the axis of time below a plot, and its lines through it."""
    unit_seconds, unit = (1.0, "s") if x.logarithmic else time_unit(x.high)
    for value in Axis(x.low / unit_seconds, x.high / unit_seconds, 0, 1, x.logarithmic).ticks():
        pixel = x.at(value * unit_seconds)
        yield element("line", x1=pixel, x2=pixel, y1=top, y2=bottom, class_="grid")
        yield label(pixel, bottom + 14, number_text(value), "end" if pixel > x.to_pixel - 30 else "middle")
    yield label((x.from_pixel + x.to_pixel) / 2, bottom + 32, f"{name} ({unit})", "middle")


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the largest unit of which a time has at least two."""
    return next((unit for unit in _TIME_UNITS if seconds >= 2 * unit[0]), _TIME_UNITS[-1])


def time_text(seconds: float) -> str:
    """Return a time for people: ``35 s``, ``2.5 h``."""
    unit_seconds, unit = time_unit(seconds)
    return f"{number_text(seconds / unit_seconds)} {unit}"


def number_text(value: float) -> str:
    """Return a number with no more than three digits after the first, thousands set apart."""
    if value and abs(value) < 0.01:
        return f"{value:.1g}"
    return f"{value:,.2f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.0f}"
