"""Limits how often a process's profiles are applied to the lanes. Each one rebuilds them and may move
neighbours.

More memory counts within a tenth of a second, because the safety condition depends on it. Less memory counts
at most every ten seconds. A process whose sizes fluctuate therefore counts with the highest, and its lane
stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

from laneway.node_agent.turns.session import Sizes

GROW_SECONDS = 0.1
SHRINK_SECONDS = 10.0


class ProfileThrottle:
    """The profiles of one process: the latest one, and the one that counts. Times are CLOCK_MONOTONIC."""

    __slots__ = ("_applied", "_newest", "_shrunk_seconds", "_taken_seconds")

    def __init__(self) -> None:
        self._newest: Sizes | None = None
        """The latest profile, while it does not count fully yet."""

        self._applied: Sizes | None = None
        self._taken_seconds = float("-inf")
        self._shrunk_seconds = float("-inf")

    def offer(self, sizes: Sizes) -> None:
        """Record the latest profile."""
        self._newest = sizes

    @property
    def due_seconds(self) -> float | None:
        """Return when to call :meth:`take`; None while nothing is pending."""
        if self._newest is None:
            return None
        if self._applied is None or _memory(_higher(self._applied, self._newest)) != _memory(self._applied):
            return self._taken_seconds + GROW_SECONDS
        if _memory(self._newest) != _memory(self._applied):
            return self._shrunk_seconds + SHRINK_SECONDS
        return self._taken_seconds + GROW_SECONDS

    def take(self, now_seconds: float) -> Sizes | None:
        """Return the sizes that count from now on; None if nothing new counts."""
        due_seconds, newest, applied = self.due_seconds, self._newest, self._applied
        if due_seconds is None or newest is None or now_seconds < due_seconds:
            return None
        self._taken_seconds = now_seconds
        higher = newest if applied is None else _higher(applied, newest)
        if applied is not None and _memory(higher) == _memory(applied) != _memory(newest):
            self._shrunk_seconds = now_seconds
            higher = newest
        self._applied = higher
        if higher == newest:
            self._newest = None
        return higher


def _memory(sizes: Sizes) -> tuple[int, int, int]:
    return sizes.persistent_bytes, sizes.ephemeral_bytes, sizes.framework_bytes


def _higher(applied: Sizes, newest: Sizes) -> Sizes:
    """Return the newest figures with the larger value of each memory size."""
    return replace(
        newest,
        persistent_bytes=max(applied.persistent_bytes, newest.persistent_bytes),
        ephemeral_bytes=max(applied.ephemeral_bytes, newest.ephemeral_bytes),
        framework_bytes=max(applied.framework_bytes, newest.framework_bytes),
    )
