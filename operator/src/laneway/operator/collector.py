"""When Python looks for cyclic garbage. With thousands of jobs in memory, looking through all objects takes longer than a decision.

Nearly everything here is freed without it: records hold one another in no cycles. So the collector waits while a decision is made, by
itself looks through young objects only, and through all of them when there is nothing to do.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_NEVER = 2**31 - 1
_SOONEST_SECONDS, _LATEST_SECONDS = 300.0, 900.0
"""All objects are looked through so often when there is nothing to do, and when there always is."""


@contextmanager
def paused_collector() -> Iterator[None]:
    """Let the collector wait while the block runs."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_young_only() -> None:
    """Restrict this process's garbage collector to young objects, except for explicit full collections."""
    youngest, young, _ = gc.get_threshold()
    gc.set_threshold(youngest, young, _NEVER)


class FullCollections:
    """When all objects are looked through."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last_seconds = monotonic()

    def rest(self, *, idle: bool) -> bool:
        """Take the opportunity between two decisions, if it is time; return whether it was taken.

        Args:
            idle: whether nothing has happened that the next decision depends on.
        """
        since_seconds = self._monotonic() - self._last_seconds
        if since_seconds < (_SOONEST_SECONDS if idle else _LATEST_SECONDS):
            return False
        gc.collect()
        self._last_seconds = self._monotonic()
        return True
