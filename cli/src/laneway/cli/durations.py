"""Parses durations on a command line."""

from __future__ import annotations

import re

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """Return a duration such as ``90``, ``90s``, ``10m`` or ``1h30m`` in seconds.

    Raises:
        ValueError: the text is not a duration.
    """
    if not re.fullmatch(r"(\d+[smhd])+|\d+s?", text):
        raise ValueError(f"{text!r} is not a duration: write 90s, 10m or 1h30m")
    return float(sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd]?)", text)))
