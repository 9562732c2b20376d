"""Exponential back-off for checks that have found nothing so far."""

from __future__ import annotations


class ExponentialBackoff:
    """Answers True to the first, second, fourth, eighth … call in a row."""

    def __init__(self) -> None:
        self._asked = 0

    def is_due(self) -> bool:
        """Returns whether the check is due at this call."""
        self._asked += 1
        return not self._asked & (self._asked - 1)

    def reset(self) -> None:
        """Starts again: the next call is the first."""
        self._asked = 0
