"""Detects an agent that hangs: it keeps its socket open and sends nothing.

Silence alone proves nothing, because a grant may take long: other jobs have their turns, or a pause was
ordered. So a client that waits for a turn sends a `ping` at intervals, which a working agent answers at once.
Any packet counts as an answer.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

PINGS_PER_TIMEOUT: Final = 12
"""Pings within the timeout of a silent agent: one every 5 s where the timeout is a minute."""
MIN_TIMEOUT_SECONDS: Final = 1.0
"""The shortest timeout. An answer may take some tenths of a second on a busy machine."""


class Keepalive:
    """The keepalive of one session. The waiting thread uses it; any thread may call `on_packet`."""

    def __init__(
        self, timeout_seconds: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Starts without a wait.

        Args:
            timeout_seconds: how long to wait for a silent agent; infinite for an agent that does not answer
                pings.
            clock: monotonic time in seconds.
        """
        limit_seconds = max(MIN_TIMEOUT_SECONDS, timeout_seconds)
        self._ping_interval_seconds = limit_seconds / PINGS_PER_TIMEOUT
        self._answer_timeout_seconds = limit_seconds - self._ping_interval_seconds
        self._clock = clock
        self._next_ping_seconds = math.inf
        self._unanswered_since_seconds: Optional[float] = None
        """When the oldest unanswered ping was sent; None: all were answered."""

    def start_waiting(self) -> None:
        """Starts a wait. Silence before it does not count, because no ping was sent."""
        self._unanswered_since_seconds = None
        if self._ping_interval_seconds < math.inf:
            self._next_ping_seconds = self._clock() + self._ping_interval_seconds

    def on_packet(self) -> None:
        """Records a packet from the agent."""
        self._unanswered_since_seconds = None

    def should_ping(self) -> bool:
        """Returns whether a ping is due; the caller then has to send it."""
        if self._next_ping_seconds == math.inf:
            return False
        now_seconds = self._clock()
        if now_seconds < self._next_ping_seconds:
            return False
        self._next_ping_seconds = now_seconds + self._ping_interval_seconds
        if self._unanswered_since_seconds is None:
            self._unanswered_since_seconds = now_seconds
        return True

    def until_ping(self, seconds: Optional[float]) -> Optional[float]:
        """Returns the time until the next ping, at most `seconds` (None: no limit)."""
        if self._next_ping_seconds == math.inf:
            return seconds
        left_seconds = max(0.0, self._next_ping_seconds - self._clock())
        return left_seconds if seconds is None else min(seconds, left_seconds)

    def has_timed_out(self) -> bool:
        """Returns whether a ping has stayed unanswered for too long."""
        unanswered_since_seconds = self._unanswered_since_seconds
        return (
            unanswered_since_seconds is not None
            and self._clock() - unanswered_since_seconds >= self._answer_timeout_seconds
        )
