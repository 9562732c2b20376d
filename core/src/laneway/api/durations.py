"""Durations in words."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Return a duration in kubectl's notation: ``42s``, ``7m30s``, ``3h5m``, ``2d4h``."""
    whole = max(0, int(seconds))
    for unit, size, smaller, smaller_size in (
        ("d", 86400, "h", 3600),
        ("h", 3600, "m", 60),
        ("m", 60, "s", 1),
    ):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size}{unit}" + (f"{rest}{smaller}" if rest else "")
    return f"{whole}s"
