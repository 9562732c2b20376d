"""When to look again at what did not show itself so far: ever more rarely, because a look costs."""

from __future__ import annotations


class Doubling:
    """Says yes to the first, second, fourth, eighth … of those who ask in a row."""

    def __init__(self) -> None:
        self._asked = 0

    def is_due(self) -> bool:
        """Whether this is one of them."""
        self._asked += 1
        return not self._asked & (self._asked - 1)

    def begin_anew(self) -> None:
        """The next one who asks is the first again."""
        self._asked = 0
