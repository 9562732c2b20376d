"""What stands in a session's place while there is no agent: a turn that nobody contests, on a page that nobody else reads.

So the way through an iteration is the same with and without an agent, and an agent that goes in the middle costs nothing but a swap.
"""

from __future__ import annotations

import select
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Optional

from laneway.client.bell import Bell
from laneway.client.page import TURN, private_page

if TYPE_CHECKING:
    from collections.abc import Callable

FREE_TURN: Final = 1


class Detached:
    """Has the face of a `Session`. Its one turn is there at once, or, after an agent was lost, when that has not come back in time."""

    closed = False
    contested = False

    def __init__(self, wait_seconds: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins to wait.

        Args:
            wait_seconds: how long the agent has to come back.
            clock: seconds that only rise.
        """
        self.words = private_page()
        self.words[TURN] = FREE_TURN
        self.box: deque[int] = deque()
        self._clock = clock
        self._free_at_seconds = clock() + wait_seconds
        self._bell: Optional[Bell] = None
        if wait_seconds > 0:
            self._bell = Bell()
        else:
            self.box.append(FREE_TURN)

    def acquire(self, patience: Callable[[], Optional[float]]) -> Optional[int]:
        """The turn; None where it is not free yet and `interrupt` came, or `patience` (seconds) is at an end."""
        if self._bell is None:
            return FREE_TURN
        left_seconds = self._free_at_seconds - self._clock()
        if left_seconds <= 0:
            return FREE_TURN
        patience_seconds = patience()
        poller = select.poll()
        poller.register(self._bell, select.POLLIN)
        poller.poll(
            1000 * max(0.0, left_seconds if patience_seconds is None else min(left_seconds, patience_seconds))
        )
        self._bell.silence()
        return None

    def give_way(self) -> None:
        """Nobody asks for it."""

    def iteration_ended(self) -> None:
        """The turn is nobody else's in any case."""

    def interrupt(self) -> None:
        """Wakes a thread that waits for the agent to come back; safe in a signal handler."""
        if self._bell is not None:
            self._bell.ring()

    def tell(self, kind: str, **fields: Any) -> None:
        """Nobody listens."""
