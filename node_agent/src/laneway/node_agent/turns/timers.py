"""The source of the scheduler's timers: the event loop, or a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from laneway.node_agent.event_loop import Timer


class Timers(Protocol):
    """Calls back at a given time."""

    def call_at(self, due_seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back when CLOCK_MONOTONIC passes ``due_seconds``."""
        ...
