"""Limits on what a container may ask of the agent, so that it cannot delay its neighbours' turns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one container, all its processes together. A correct client stays far below them."""

    processes: int = 64
    """Concurrent connections, and living processes that have or had a session."""

    accept_burst: int = 64
    accepts_per_second: int = 5
    """Accepted connections: a burst, then a rate; further ones wait in the container's own queue."""

    hello_seconds: float = 5.0
    """Time for the client to send its hello."""

    packet_burst: int = 400
    packets_per_second: int = 200
    """Packets of up to :attr:`packet_bytes`; a longer one counts as several."""

    packets_per_yield: int = 3
    """Each request to yield credits the packets of a hand-off: release, request and one more. An
    unrequested release gets no credit, or a client alone in its lane could flood the agent."""

    packet_bytes: int = 512

    final_packets: int = 8
    """Packets read from a process that has ended: its last report, a release, its goodbye."""

    profile_burst: int = 64
    profiles_per_second: int = 10
    """Profiles that are applied to the lane table."""

    queue_bytes: int = 131_072
    """What may lie unread between the agent and one process, as the kernel counts."""


RESERVED_DESCRIPTORS = 512
"""Descriptors that the agent needs for everything else: files, timers, HTTP, the API server."""

DESCRIPTORS_PER_PROCESS = 5
"""Descriptors of one connected process: of its session the connection, the pidfd and the page (Python's mmap
keeps one), and of its memory account the connection and the pidfd."""


def processes_per_container(limits: Limits, containers: int, descriptors: int) -> int:
    """Return how many processes of one container may be connected.

    The descriptors are shared out evenly, so that no set of containers can exhaust those of another.

    Args:
        limits: the limit if descriptors are plentiful.
        containers: the number of containers on the node.
        descriptors: how many files the agent may have open (RLIMIT_NOFILE).
    """
    fair = (descriptors - RESERVED_DESCRIPTORS) // DESCRIPTORS_PER_PROCESS // max(1, containers)
    return max(1, min(limits.processes, fair))
