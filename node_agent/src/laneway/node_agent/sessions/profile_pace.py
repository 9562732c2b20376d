"""How often what a process measured of itself reaches the lanes, which are cut anew for it and may move its neighbours.

More memory than before counts within a tenth of a second, because the safety condition rests on it. Less counts at most every
ten seconds: a process whose figures go up and down all the time then counts with the highest, and its lane stays as it is.
"""

from __future__ import annotations

from dataclasses import replace

from laneway.node_agent.turns.session import Sizes

GROW_SECONDS = 0.1
SHRINK_SECONDS = 10.0


class ProfilePace:
    """One process's profiles: what came, and what of it counts when. Times are CLOCK_MONOTONIC."""

    __slots__ = ("_counts", "_newest", "_shrunk_seconds", "_taken_seconds")

    def __init__(self) -> None:
        self._newest: Sizes | None = None
        """What came and does not count yet, or not fully."""

        self._counts: Sizes | None = None
        self._taken_seconds = float("-inf")
        self._shrunk_seconds = float("-inf")

    def offer(self, sizes: Sizes) -> None:
        """Take what the process measured last."""
        self._newest = sizes

    @property
    def due_seconds(self) -> float | None:
        """When to ask for what counts; None while all has been taken."""
        if self._newest is None:
            return None
        if self._counts is None or _memory(_higher(self._counts, self._newest)) != _memory(self._counts):
            return self._taken_seconds + GROW_SECONDS
        if _memory(self._newest) != _memory(self._counts):
            return self._shrunk_seconds + SHRINK_SECONDS
        return self._taken_seconds + GROW_SECONDS

    def take(self, now_seconds: float) -> Sizes | None:
        """Return what counts from now on; None if nothing new does."""
        due_seconds, newest, counts = self.due_seconds, self._newest, self._counts
        if due_seconds is None or newest is None or now_seconds < due_seconds:
            return None
        self._taken_seconds = now_seconds
        higher = newest if counts is None else _higher(counts, newest)
        if counts is not None and _memory(higher) == _memory(counts) != _memory(newest):
            self._shrunk_seconds = now_seconds
            higher = newest
        self._counts = higher
        if higher == newest:
            self._newest = None
        return higher


def _memory(sizes: Sizes) -> tuple[int, int, int]:
    return sizes.persistent_bytes, sizes.ephemeral_bytes, sizes.framework_bytes


def _higher(counts: Sizes, newest: Sizes) -> Sizes:
    """Return the newest figures with the larger one of each size in memory."""
    return replace(
        newest,
        persistent_bytes=max(counts.persistent_bytes, newest.persistent_bytes),
        ephemeral_bytes=max(counts.ephemeral_bytes, newest.ephemeral_bytes),
        framework_bytes=max(counts.framework_bytes, newest.framework_bytes),
    )
