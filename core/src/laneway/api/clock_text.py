"""Times as Kubernetes writes them (RFC 3339, UTC, microseconds only where they are needed)."""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(seconds: float) -> str:
    """Return seconds since the epoch as text with microseconds, such as ``2026-01-31T12:00:00.250000Z``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def to_seconds(text: str) -> float:
    """Return a text of Kubernetes as seconds since the epoch.

    Raises:
        ValueError: the text is not a time.
    """
    return datetime.fromisoformat(text).timestamp()
