"""Warnings about what others do wrong: each kind at most once a second, so that nobody fills the log."""

from __future__ import annotations

import logging

from laneway.node_agent.clock import Clock

_MOST_KINDS = 1024


class QuietLog:
    """A logger that counts what it leaves out."""

    def __init__(self, logger: logging.Logger, clock: Clock, interval_seconds: float = 1.0) -> None:
        self._logger = logger
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._last: dict[str, tuple[float, int]] = {}

    def warning(self, kind: str, text: str) -> None:
        """Log a warning, unless one of its kind was logged just now."""
        now_seconds = self._clock.monotonic()
        logged_seconds, left_out = self._last.get(kind, (float("-inf"), 0))
        if now_seconds - logged_seconds < self._interval_seconds:
            self._last[kind] = (logged_seconds, left_out + 1)
            return
        if len(self._last) >= _MOST_KINDS:
            self._last.clear()
        self._last[kind] = (now_seconds, 0)
        self._logger.warning("%s%s", text, f" ({left_out} more like this before)" if left_out else "")
