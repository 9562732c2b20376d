"""Numbers and times for people."""

from __future__ import annotations

from collections.abc import Iterable

_TIME_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the largest unit that is at most half of a time: its seconds, and its symbol."""
    return next((unit for unit in _TIME_UNITS if seconds >= 2 * unit[0]), _TIME_UNITS[-1])


def time_text(seconds: float) -> str:
    """Return a time such as ``35 s`` or ``2.5 h``."""
    unit_seconds, unit = time_unit(seconds)
    return f"{number_text(seconds / unit_seconds)} {unit}"


def number_text(value: float) -> str:
    """Return a number with at most two decimals, and with thousands separators."""
    if value and abs(value) < 0.01:
        return f"{value:.1g}"
    return f"{value:,.2f}".rstrip("0").rstrip(".") if abs(value) < 1000 else f"{value:,.0f}"


def rounded(values: Iterable[float]) -> list[float]:
    """Return values with six significant digits: more cannot be seen, and would only make the page larger."""
    return [float(f"{value:.6g}") for value in values]
