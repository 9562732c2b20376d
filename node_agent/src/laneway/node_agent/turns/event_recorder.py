"""The interface through which a GPU reports to the rest of the agent, on the loop's thread and without
blocking."""

from __future__ import annotations

from typing import Protocol

from laneway.node_agent.turns.lease import Lease


class EventRecorder(Protocol):
    """Receives changes and events of one GPU."""

    def changed(self) -> None:
        """Report that leases, sessions, lanes, sizes or messages changed. Turns alone are not reported."""
        ...

    def record_event(self, lease: Lease, reason: str, message: str) -> None:
        """Record an event that the container's owner should know.

        Args:
            lease: the container's lease.
            reason: one CamelCase word, for machines.
            message: a sentence for people.
        """
        ...
