"""Numbers in a line of a trace, with errors that name the column."""

from __future__ import annotations

import math
from collections.abc import Mapping


def whole(row: Mapping[str, str], column: str, default: int | None = None) -> int:
    """Return a column as a whole number; an empty or missing one has the default.

    Raises:
        ValueError: it is not a whole number.
    """
    text = row.get(column, "")
    if not text and default is not None:
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{column} is {text!r}: write a whole number") from None


def seconds(row: Mapping[str, str], column: str) -> float:
    """Return a column as a time in seconds.

    Raises:
        ValueError: it is not a finite number.
    """
    text = row.get(column, "")
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{column} is {text!r}: write a number of seconds") from None
    if not math.isfinite(value):
        raise ValueError(f"{column} is {text!r}: write a number of seconds")
    return value
