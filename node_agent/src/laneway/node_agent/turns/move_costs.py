"""How long processes take to move their persistent memory off a GPU and back, as the agent sees it.

The scheduler compares it with what an eviction costs. The times are the agent's own, from the command to the answer, so a process cannot
claim to be faster than it is; medians keep one process that dawdles from deciding for all.
"""

from __future__ import annotations

from collections import deque
from statistics import median

_GIB = 1 << 30
_LEAST_BYTES = 16 << 20
"""Moves of less say more about the wait for the process than about the GPU's link."""

_MOST_MOVES = 16
"""Moves of each direction that count, the last ones."""


class MoveCosts:
    """The last moves of one GPU."""

    def __init__(self) -> None:
        self._out: deque[float] = deque(maxlen=_MOST_MOVES)
        self._back: deque[float] = deque(maxlen=_MOST_MOVES)

    def note_out(self, moved_bytes: int, seconds: float) -> None:
        """Note a move to the host."""
        _note(self._out, moved_bytes, seconds)

    def note_back(self, moved_bytes: int, seconds: float) -> None:
        """Note a move back to the GPU."""
        _note(self._back, moved_bytes, seconds)

    @property
    def milliseconds_per_gib(self) -> int | None:
        """The time to move a GiB to the host and back, at least 1; None until something was moved. A direction that was not seen
        yet counts as the other one."""
        seen = [median(each) for each in (self._out, self._back) if each]
        return max(1, round(1000 * 2 * sum(seen) / len(seen))) if seen else None


def _note(moves: deque[float], moved_bytes: int, seconds: float) -> None:
    if moved_bytes >= _LEAST_BYTES and seconds > 0:
        moves.append(seconds * _GIB / moved_bytes)
