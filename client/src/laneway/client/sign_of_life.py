"""Whether the agent lives, asked while a turn is waited for: one that was stopped, or hangs, keeps its socket and says nothing.

Silence alone shows nothing, because a turn may be long in coming: others have theirs, or an operator has ordered a pause. So who waits asks now and
then, with a `ping` that a living agent answers at once. Any packet of it is a sign of life.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

QUESTIONS: Final = 12
"""In the time after which a silent agent is given up; every 5 s where that is a minute."""
LEAST_SECONDS: Final = 1.0
"""A machine that is busy may well take some tenths of a second for an answer."""


class SignOfLife:
    """One session's. Used by the thread that waits for a turn; `heard` by any."""

    def __init__(
        self, timeout_seconds: float = math.inf, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Nobody waits yet.

        Args:
            timeout_seconds: how long a silent agent is waited for; infinite for one that does not know the question.
            clock: seconds that only rise.
        """
        limit_seconds = max(LEAST_SECONDS, timeout_seconds)
        self._ask_seconds = limit_seconds / QUESTIONS
        self._answer_seconds = limit_seconds - self._ask_seconds
        self._clock = clock
        self._due_seconds = math.inf
        self._asked_seconds: Optional[float] = None
        """When the first question was asked that has had no answer; None: all have."""

    def await_turn(self) -> None:
        """A wait begins: what was silent before it says nothing, because nobody asked."""
        self._asked_seconds = None
        if self._ask_seconds < math.inf:
            self._due_seconds = self._clock() + self._ask_seconds

    def heard(self) -> None:
        """The agent has said something."""
        self._asked_seconds = None

    def is_to_ask(self) -> bool:
        """Whether to ask now; who is told so does."""
        if self._due_seconds == math.inf:
            return False
        now_seconds = self._clock()
        if now_seconds < self._due_seconds:
            return False
        self._due_seconds = now_seconds + self._ask_seconds
        if self._asked_seconds is None:
            self._asked_seconds = now_seconds
        return True

    def until_question(self, seconds: Optional[float]) -> Optional[float]:
        """So many seconds, None for no limit, or those until the next question is due if they are fewer."""
        if self._due_seconds == math.inf:
            return seconds
        left_seconds = max(0.0, self._due_seconds - self._clock())
        return left_seconds if seconds is None else min(seconds, left_seconds)

    def is_missing(self) -> bool:
        """Whether a question has been left without an answer for too long."""
        asked_seconds = self._asked_seconds
        return asked_seconds is not None and self._clock() - asked_seconds >= self._answer_seconds
