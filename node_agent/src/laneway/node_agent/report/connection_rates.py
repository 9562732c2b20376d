"""Finds the addresses that open connections faster than their share of the port's rate allows."""

from __future__ import annotations

from collections import Counter

from laneway.node_agent.clock import Clock

CONNECTIONS_PER_SECOND = 300
"""Of all addresses together. Kubelets and Prometheus need less than one a second."""

BLOCK_SECONDS = 10.0


class ConnectionRates:
    """Counts connections by address, in windows of one second.

    Once all addresses together exceed the rate, an address above an equal share of it is to be blocked. So an
    address below its share is never blocked, whatever others do.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._window_ends_seconds = clock.monotonic() + 1.0
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._blocked_until_seconds: dict[str, float] = {}

    def is_blocked(self, address: str) -> bool:
        """Return whether the address is blocked."""
        return address in self._blocked_until_seconds

    def exceeded_by(self, address: str) -> bool:
        """Count a connection. Return whether its address is above its share of an exceeded rate."""
        now_seconds = self._clock.monotonic()
        if now_seconds >= self._window_ends_seconds:
            self._window_ends_seconds = now_seconds + 1.0
            self._counts.clear()
            self._total = 0
        self._counts[address] += 1
        self._total += 1
        share = CONNECTIONS_PER_SECOND / len(self._counts)
        return self._total > CONNECTIONS_PER_SECOND and self._counts[address] > share

    def block(self, address: str) -> None:
        """Block an address for :data:`BLOCK_SECONDS`."""
        self._blocked_until_seconds[address] = self._clock.monotonic() + BLOCK_SECONDS

    def unblock_expired(self) -> bool:
        """Forget blocks that have lasted long enough. Return whether there was one."""
        now_seconds = self._clock.monotonic()
        expired = [address for address, until in self._blocked_until_seconds.items() if until <= now_seconds]
        for address in expired:
            del self._blocked_until_seconds[address]
        return bool(expired)

    @property
    def blocked(self) -> tuple[str, ...]:
        """Return the blocked addresses, the latest first."""
        return tuple(reversed(self._blocked_until_seconds))
