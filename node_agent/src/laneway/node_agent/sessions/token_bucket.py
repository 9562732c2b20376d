"""A token bucket: bounds a container's packets, connections and profiles."""

from __future__ import annotations

from laneway.node_agent.clock import Clock


class TokenBucket:
    """A token bucket that reads the clock only when it is empty.

    It is refilled only then, so twice ``burst`` may pass in a short time. Over long times the rate is exact.
    """

    __slots__ = ("_burst", "_clock", "_per_second", "_since_seconds", "_tokens")

    def __init__(self, burst: float, per_second: float, clock: Clock) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._tokens = burst
        self._since_seconds = clock.monotonic()

    def take(self, cost: float = 1) -> bool:
        """Take tokens. Return False, and take nothing, if too few are left."""
        left = self._tokens - cost
        if left < 0:
            now_seconds = self._clock.monotonic()
            filled = self._tokens + (now_seconds - self._since_seconds) * self._per_second
            self._tokens = min(self._burst, filled)
            self._since_seconds = now_seconds
            left = self._tokens - cost
            if left < 0:
                return False
        self._tokens = left
        return True

    def refund(self, amount: float) -> None:
        """Add tokens beyond the regular rate."""
        self._tokens = min(self._burst, self._tokens + amount)

    def seconds_until(self, cost: float = 1) -> float:
        """Return how long until this many tokens are available; call it right after a failed :meth:`take`."""
        return max(0.0, cost - self._tokens) / self._per_second
