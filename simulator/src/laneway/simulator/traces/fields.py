"""Reads the fields of a line; errors name the column."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime


def name(row: Mapping[str, str], column: str) -> str:
    """Return a column that holds a name.

    Raises:
        ValueError: it is empty.
    """
    text = row.get(column, "")
    if not text:
        raise ValueError(f"{column} is empty: write its name")
    return text


def whole(row: Mapping[str, str], column: str, default: int | None = None) -> int:
    """Return a column as a whole number, or the default where it is empty or missing.

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


def number(row: Mapping[str, str], column: str, what: str = "a number") -> float:
    """Return a column as a number.

    Args:
        row: the line's fields.
        column: the column's name.
        what: the expected content, for the message.

    Raises:
        ValueError: it is not a finite number.
    """
    text = row.get(column, "")
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{column} is {text!r}: write {what}") from None
    if not math.isfinite(value):
        raise ValueError(f"{column} is {text!r}: write {what}")
    return value


def seconds(row: Mapping[str, str], column: str) -> float:
    """Return a column as a time in seconds.

    Raises:
        ValueError: it is not a finite number.
    """
    return number(row, column, "a number of seconds")


def milliseconds(row: Mapping[str, str], column: str) -> float:
    """Return a column in milliseconds as a time in seconds.

    Raises:
        ValueError: it is not a finite number.
    """
    return number(row, column, "a number of milliseconds") / 1000


def moment(row: Mapping[str, str], column: str) -> float:
    """Return a date with a time of day, ``2017-10-09 07:01:55``, in seconds since 1970. Traces give no time zone; UTC is assumed.

    Raises:
        ValueError: it is not of that form.
    """
    text = row.get(column, "")
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        raise ValueError(
            f"{column} is {text!r}: write a date and a time, such as 2017-10-09 07:01:55"
        ) from None
