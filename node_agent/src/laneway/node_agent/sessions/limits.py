"""What a container may ask of the agent before it is cut off, so that it cannot slow down its neighbours' turns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one container, all its processes together. A client that keeps to the protocol comes nowhere near them."""

    processes: int = 64
    """Connections at a time, and processes that have (or had, and still live) a session."""

    accepts_at_once: int = 64
    accepts_per_second: int = 5
    """Connections that are looked at: so many at once, then so many a second; more wait in the container's own queue."""

    hello_seconds: float = 5.0
    """Time to say hello."""

    packets_at_once: int = 400
    packets_per_second: int = 200
    """Packets of up to :attr:`packet_bytes`; a longer one counts as several."""

    packets_per_yield: int = 3
    """Each time that the agent asks for a turn it pays for the packets of a hand-over: release, request, and one more. A
    turn that is given back unasked pays for nothing, or a client alone in its lane could do nothing else all day."""

    packet_bytes: int = 512

    last_words: int = 8
    """Packets that are read of a process that has ended: its last report, a release, its goodbye."""

    profiles_at_once: int = 64
    profiles_per_second: int = 10
    """Profiles that are passed on to the lanes, which are cut anew for each."""

    queue_bytes: int = 131_072
    """What may lie unread between the agent and one process, as the kernel counts."""


DESCRIPTORS_KEPT = 512
"""Descriptors that the agent needs for all else: its files, its timers, HTTP, the API server."""

DESCRIPTORS_PER_PROCESS = 3
"""Of one connected process: its connection, its pidfd, and its page (of which Python's mmap keeps a descriptor)."""


def processes_per_container(limits: Limits, containers: int, descriptors: int) -> int:
    """Return how many processes of one container may be connected.

    The descriptors are shared out evenly, so that no container, nor all of them together, can use up those of another.

    Args:
        limits: the bound where there are plenty.
        containers: how many there are on the node.
        descriptors: how many files the agent may have open (RLIMIT_NOFILE).
    """
    fair = (descriptors - DESCRIPTORS_KEPT) // DESCRIPTORS_PER_PROCESS // max(1, containers)
    return max(1, min(limits.processes, fair))
