"""A stand-in for the session while there is no agent: its turn is always granted and its page is private.

Iterations take the same path with and without an agent. Losing the agent only swaps the session object.
"""

from __future__ import annotations

import select
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.session.shared_page import TURN, local_page
from laneway.client.session.wakeup import WakeupPipe

if TYPE_CHECKING:
    from collections.abc import Callable

FREE_TURN: Final = 1


class NullSession:
    """Has the interface of `Session`. Its turn is granted at once, or after a lost agent's time to return is
    over."""

    closed = False
    has_agent = False

    def __init__(self, wait_seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts to wait for the agent's return.

        Args:
            wait_seconds: how long the agent has to return.
            clock: monotonic time in seconds.
        """
        self.words = local_page()
        self.words[TURN] = FREE_TURN
        self.idle_turn: deque[int] = deque()
        self._clock = clock
        self._free_at_seconds = clock() + wait_seconds
        self._wakeup: Optional[WakeupPipe] = None
        if wait_seconds > 0:
            self._wakeup = WakeupPipe()
        else:
            self.idle_turn.append(FREE_TURN)

    def acquire(self, get_timeout: Callable[[], Optional[float]]) -> Optional[int]:
        """Returns the turn; None after `interrupt`, or when `get_timeout` (seconds) has expired before the
        turn is free."""
        if self._wakeup is None:
            return FREE_TURN
        left_seconds = self._free_at_seconds - self._clock()
        if left_seconds <= 0:
            return FREE_TURN
        timeout_seconds = get_timeout()
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        poller.poll(
            1000 * max(0.0, left_seconds if timeout_seconds is None else min(left_seconds, timeout_seconds))
        )
        self._wakeup.clear()
        return None

    def holds(self, turn: int) -> bool:
        """Returns whether the turn is the one that is always granted."""
        return turn == FREE_TURN

    def yield_turn(self) -> None:
        """Does nothing: no other session wants the turn."""

    def iteration_ended(self) -> None:
        """Does nothing: the turn has no other holder."""

    def interrupt(self) -> None:
        """Wakes a thread that waits for the agent's return. Safe in a signal handler."""
        if self._wakeup is not None:
            self._wakeup.wake()

    def send_message(self, kind: str, **fields: Any) -> None:
        """Discards the message: there is no receiver."""
