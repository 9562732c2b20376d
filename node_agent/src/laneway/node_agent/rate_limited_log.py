"""Rate-limited warnings about clients' mistakes, so that no client can fill the log.

A kind of warning is logged at once the first time, then ever more rarely while it continues: after one
second, two, four, up to a minute. Suppressed lines are counted. The count is logged with the next line or,
when the warnings have ended, with the last suppressed one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from laneway.node_agent.clock import Clock

_OTHER = "other"


@dataclass(slots=True)
class _Kind:
    """The log state of one kind of warning."""

    next_seconds: float
    """Nothing is logged before this time."""

    pause_seconds: float
    suppressed: int = 0
    text: str = ""
    """The last suppressed line."""


class RateLimitedLog:
    """A logger that counts what it suppresses."""

    def __init__(
        self,
        logger: logging.Logger,
        clock: Clock,
        interval_seconds: float = 1.0,
        max_interval_seconds: float = 60.0,
        max_kinds: int = 64,
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._max_interval_seconds = max_interval_seconds
        self._max_kinds = max_kinds
        self._kinds: dict[str, _Kind] = {}

    def warning(self, kind: str, text: str, *, traceback: bool = False) -> None:
        """Log a warning, unless one of its kind was logged recently.

        Args:
            kind: what is counted together, such as a container and a reason; never a client's text.
            text: the line.
            traceback: whether to log the current exception, too.
        """
        now_seconds = self._clock.monotonic()
        seen = self._kind_of(kind, now_seconds)
        if now_seconds < seen.next_seconds:
            seen.suppressed += 1
            seen.text = text
            return
        self._logger.warning("%s%s", text, _more(seen.suppressed), exc_info=traceback)
        self._mark_logged(seen, now_seconds)

    def flush_suppressed(self) -> None:
        """Log suppressed lines whose pause is over. Call this now and then."""
        now_seconds = self._clock.monotonic()
        for seen in self._kinds.values():
            if seen.suppressed and now_seconds >= seen.next_seconds:
                self._logger.warning("%s%s", seen.text, _more(seen.suppressed - 1))
                self._mark_logged(seen, now_seconds)

    def _kind_of(self, kind: str, now_seconds: float) -> _Kind:
        if kind not in self._kinds and len(self._kinds) >= self._max_kinds:
            self._kinds = {
                name: seen for name, seen in self._kinds.items() if not self._is_over(seen, now_seconds)
            }
            if len(self._kinds) >= self._max_kinds:
                kind = _OTHER
        seen = self._kinds.get(kind)
        if seen is None:
            seen = self._kinds[kind] = _Kind(now_seconds, self._interval_seconds)
        elif now_seconds >= seen.next_seconds + self._max_interval_seconds:
            seen.pause_seconds = (
                self._interval_seconds
            )  # a new series of warnings starts with the short pause
        return seen

    def _is_over(self, seen: _Kind, now_seconds: float) -> bool:
        """Return whether a kind is as good as new: its warnings have ended, and all of them are counted."""
        return not seen.suppressed and now_seconds >= seen.next_seconds + self._max_interval_seconds

    def _mark_logged(self, seen: _Kind, now_seconds: float) -> None:
        seen.next_seconds = now_seconds + seen.pause_seconds
        seen.pause_seconds = min(2 * seen.pause_seconds, self._max_interval_seconds)
        seen.suppressed = 0


def _more(count: int) -> str:
    return f" suppressed={count}" if count else ""
