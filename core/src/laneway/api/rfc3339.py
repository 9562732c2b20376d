"""Times in the text format of Kubernetes: RFC 3339, UTC, with microseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def format_time(seconds: float) -> str:
    """Return seconds since the epoch as text with microseconds, such as ``2026-01-31T12:00:00.250000Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> float:
    """Return a time of the Kubernetes API in seconds since the epoch.

    Raises:
        ValueError: the text is not a time.
    """
    return datetime.fromisoformat(text).timestamp()


def check_time(text: str) -> str:
    """Return the text of a time as it is.

    Raises:
        ValueError: the text is not a time, has no time zone, or is beyond the years that :func:`format_time` can write.
    """
    try:
        time = datetime.fromisoformat(text)
        time.astimezone(UTC)
    except (ValueError, OverflowError):
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError("not a time; write one such as 2026-01-31T12:00:00Z")
    return text
