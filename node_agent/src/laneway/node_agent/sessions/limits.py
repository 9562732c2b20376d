"""What a container may ask of the agent before it is cut off, so that it cannot slow down its neighbours' turns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one container's traffic. A client that keeps to the protocol comes nowhere near them."""

    connections: int = 64
    """Processes of one container that are connected at a time."""

    accepts_per_second: int = 50
    """Connections of one container that are looked at in a second; more wait in its own socket's queue."""

    hello_seconds: float = 5.0
    """Time to say hello."""

    unearned_packets_per_second: int = 200
    """Packets in a second, not counting those before a grant: each turn pays for its own packets, and a hand-off of a
    tenth of a millisecond allows thousands of turns."""
