"""Leases of containers that have ended. Their last figures are reported for a while."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.node_agent.turns.lease import Lease


class EndedLeases:
    """At most one lease per key: the next container with the same ids takes over the key."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[Lease, float]] = {}

    def __iter__(self) -> Iterator[Lease]:
        return (lease for lease, _ in self._leases.values())

    def add(self, lease: Lease, now_seconds: float) -> None:
        """Keep a lease from now on."""
        self._leases[lease.key] = (lease, now_seconds)

    def drop(self, key: str) -> None:
        """Forget a lease because its key has a new owner."""
        self._leases.pop(key, None)

    def drop_before(self, until_seconds: float) -> bool:
        """Forget leases that ended before a time. Return whether there were any."""
        before = len(self._leases)
        self._leases = {key: entry for key, entry in self._leases.items() if entry[1] > until_seconds}
        return len(self._leases) < before
