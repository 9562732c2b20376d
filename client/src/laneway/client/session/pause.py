"""The pause that the agent asks for before it moves a job's memory, and after which iteration it takes effect.

The processes of a gang wait for one another inside their iterations, so they agree on an iteration first.
Until then, the number may grow.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Optional, Protocol

from laneway.client.session.channel import encode
from laneway.client.session.shared_page import ITERATIONS, PAUSED

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.session.agent_socket import AgentSocket

PAUSED_ANSWER: Final = encode("paused")


class Gang(Protocol):
    """The other processes of a gang."""

    def agree(self, pause: Pause) -> bool:
        """Finds out, in another thread, after which iteration the process pauses, and calls
        `Pause.pause_after`.

        Returns:
            False, without doing anything, where this process is on its own.
        """


class Pause:
    """A pause of one session; callable from any thread."""

    def __init__(self, words: memoryview, socket: AgentSocket, on_move: Callable[[], None]) -> None:
        """Without a pause.

        Args:
            words: the shared page.
            socket: the session's connection; there is no pause after its end.
            on_move: called when the process is to pause after another iteration than before.
        """
        self.gang: Optional[Gang] = None
        """The processes that this one waits for inside its iterations, if it is one of several."""
        self.is_final = False
        """The iteration will not change any more: the gang has agreed, or there is no gang."""
        self._words = words
        self._socket = socket
        self.on_move = on_move
        self._unanswered: deque[None] = deque()
        self._after: Optional[int] = None
        """The process pauses once this many iterations are done; None: no pause."""

    @property
    def iterations(self) -> int:
        """Iterations completed by the process."""
        return self._words[ITERATIONS]

    @property
    def is_pausing(self) -> bool:
        """Whether a pause was requested and neither answered nor cancelled."""
        return bool(self._unanswered) and not self._socket.closed

    @property
    def is_paused(self) -> bool:
        """Whether a pause was answered and has not ended."""
        return self._after is not None and not self.is_pausing and not self._socket.closed

    def is_reached(self) -> bool:
        """Returns whether the process is at its pause point, or possibly at it."""
        return bool(
            self._words[PAUSED] and self._after is not None and self._words[ITERATIONS] >= self._after
        )

    def is_undecided(self) -> bool:
        """Returns whether the process is at a pause point that may still move."""
        return self._after is not None and not self.is_final and self.is_reached()

    def begin(self) -> None:
        """Begins a pause that the agent requested: at once, or where the gang agrees."""
        self._unanswered.append(None)
        if self.gang is None or not self.gang.agree(self):
            self.pause_after(0, final=True)

    def pause_after(self, iterations: int, *, final: bool) -> None:
        """Allows no new iteration once `iterations` are done. The number may grow until it is final.

        Args:
            iterations: the number of iterations after which the process pauses.
            final: the process certainly stops there, so the pause is answered.
        """
        if not self.is_pausing:
            return
        if not final:
            self.is_final = False
        self._after = iterations
        self.is_final = final  # another thread may answer from now on, at this iteration and no earlier one
        self._socket.interrupt()
        self.on_move()

    def answer(self) -> None:
        """Answers a pause once, whichever thread calls first."""
        try:
            self._unanswered.pop()
        except IndexError:
            return
        self._unanswered.clear()
        self._socket.send(PAUSED_ANSWER)

    def resume(self) -> None:
        """Ends the pause, answered or not."""
        self._unanswered.clear()
        self._after = None
        self._socket.interrupt()
