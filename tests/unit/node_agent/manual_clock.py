"""A clock that a test moves."""

from __future__ import annotations


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_seconds = 0.0

    def monotonic(self) -> float:
        return self.now_seconds

    def realtime(self) -> float:
        return self.now_seconds
