"""How a watch or a followed log goes on when the API server fails: the same for the SDK and the board."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 30.0
_QUIET_SECONDS = 60.0

_UNAVAILABLE: Final = frozenset({429, 500, 502, 503, 504})


def is_temporary(status: int) -> bool:
    """Whether an HTTP status says that the API server cannot answer now, as while it starts or is overloaded."""
    return status in _UNAVAILABLE


class RetryDelays:
    """The pauses between tries: they double, and begin again after a minute without a failure.

    Each is shortened by chance, up to a half, so that the followers of an API server that comes back do not ask it all at once.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, chance: Callable[[], float] = random.random
    ) -> None:
        """Use a clock, in seconds, and a source of numbers from 0 to 1."""
        self._clock = clock
        self._chance = chance
        self._failures = 0
        self._until_seconds = 0.0

    def next_seconds(self) -> float:
        """Return the pause after a failure, in seconds."""
        now_seconds = self._clock()
        if now_seconds - self._until_seconds > _QUIET_SECONDS:
            self._failures = 0
        longest = min(_FIRST_SECONDS * 2.0 ** min(self._failures, 16), _LONGEST_SECONDS)
        delay_seconds = longest * (1 - self._chance() / 2)
        self._failures += 1
        self._until_seconds = now_seconds + delay_seconds
        return delay_seconds
