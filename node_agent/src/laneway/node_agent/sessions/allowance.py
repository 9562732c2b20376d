"""So many at once, and then so many a second: what bounds a container's packets, connections and profiles."""

from __future__ import annotations

from laneway.node_agent.clock import Clock


class Allowance:
    """A token bucket that looks at the clock only when it is empty.

    Because it is filled up only then, twice ``at_once`` may pass in a short time; over long ones it is exact.
    """

    __slots__ = ("_at_once", "_clock", "_left", "_per_second", "_since_seconds")

    def __init__(self, at_once: float, per_second: float, clock: Clock) -> None:
        self._at_once = at_once
        self._per_second = per_second
        self._clock = clock
        self._left = at_once
        self._since_seconds = clock.monotonic()

    def take(self, cost: float = 1) -> bool:
        """Take from it; returns false, and takes nothing, where too little is left."""
        left = self._left - cost
        if left < 0:
            now_seconds = self._clock.monotonic()
            filled = self._left + (now_seconds - self._since_seconds) * self._per_second
            self._left = min(self._at_once, filled)
            self._since_seconds = now_seconds
            left = self._left - cost
            if left < 0:
                return False
        self._left = left
        return True

    def give(self, amount: float) -> None:
        """Put something in, beyond what comes with time."""
        self._left = min(self._at_once, self._left + amount)

    def seconds_until(self, cost: float = 1) -> float:
        """Return how long it takes until so much is there; right after a :meth:`take` that failed."""
        return max(0.0, cost - self._left) / self._per_second
