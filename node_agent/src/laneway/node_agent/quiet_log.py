"""Warnings about what others do wrong, told so that nobody can fill the log with them.

A kind of warning is logged at once the first time, and again ever more rarely while it goes on: after one second, two, four,
up to a minute. What is left out is counted, and the count is told with the next line or, once it is over, by itself.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from laneway.node_agent.clock import Clock

_OTHER = "other"


@dataclass(slots=True)
class _Kind:
    """What was said of one kind."""

    next_seconds: float
    """Nothing is logged before."""

    pause_seconds: float
    left_out: int = 0
    text: str = ""
    """The last one that was left out."""


class QuietLog:
    """A logger that counts what it leaves out."""

    def __init__(
        self,
        logger: logging.Logger,
        clock: Clock,
        interval_seconds: float = 1.0,
        most_interval_seconds: float = 60.0,
        most_kinds: int = 64,
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._most_interval_seconds = most_interval_seconds
        self._most_kinds = most_kinds
        self._kinds: dict[str, _Kind] = {}

    def warning(self, kind: str, text: str, *, traceback: bool = False) -> None:
        """Log a warning, unless one of its kind was logged lately.

        Args:
            kind: what is counted together; one of a few that the agent chooses, never a client's text.
            text: the line.
            traceback: whether the exception that is being handled is told, too.
        """
        now_seconds = self._clock.monotonic()
        seen = self._of(kind, now_seconds)
        if now_seconds < seen.next_seconds:
            seen.left_out += 1
            seen.text = text
            return
        self._logger.warning("%s%s", text, _more(seen.left_out), exc_info=traceback)
        self._has_told(seen, now_seconds)

    def tell_left_out(self) -> None:
        """Log what was left out of kinds that have come to an end, or go on. To be called now and then."""
        now_seconds = self._clock.monotonic()
        for seen in self._kinds.values():
            if seen.left_out and now_seconds >= seen.next_seconds:
                self._logger.warning("%s%s", seen.text, _more(seen.left_out - 1))
                self._has_told(seen, now_seconds)

    def _of(self, kind: str, now_seconds: float) -> _Kind:
        if kind not in self._kinds and len(self._kinds) >= self._most_kinds:
            kind = _OTHER
        seen = self._kinds.get(kind)
        if seen is None:
            seen = self._kinds[kind] = _Kind(now_seconds, self._interval_seconds)
        elif now_seconds >= seen.next_seconds + self._most_interval_seconds:
            seen.pause_seconds = self._interval_seconds  # it was over: what begins anew is told as at first
        return seen

    def _has_told(self, seen: _Kind, now_seconds: float) -> None:
        seen.next_seconds = now_seconds + seen.pause_seconds
        seen.pause_seconds = min(2 * seen.pause_seconds, self._most_interval_seconds)
        seen.left_out = 0


def _more(count: int) -> str:
    return f" ({count} more like this before)" if count else ""
