"""Limits on what a container may ask of the agent, so that it cannot delay its neighbours' turns."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one container, all its processes together. A correct client stays far below them."""

    processes: int = 64
    """Concurrent connections for sessions, and living processes that have or had one."""

    account_processes: int = 256
    """Concurrent connections to the memory accounts. More than sessions, because only the watchdog holds a
    process without an account."""

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

DESCRIPTORS_PER_SESSION = 3
"""The connection, the pidfd and the page (Python's mmap keeps one)."""

DESCRIPTORS_PER_ACCOUNT = 2
"""The connection and the pidfd."""

DESCRIPTORS_PER_PROCESS = DESCRIPTORS_PER_SESSION + DESCRIPTORS_PER_ACCOUNT


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """How many processes of one container may be connected."""

    sessions: int
    accounts: int


def process_limits(limits: Limits, containers: int, descriptors: int) -> ProcessLimits:
    """Return how many processes of one container may be connected.

    The descriptors are shared out evenly, so that no set of containers can exhaust those of another. Each
    process with a session may have a memory account.

    Args:
        limits: the limits if descriptors are plentiful.
        containers: the number of containers on the node.
        descriptors: how many files the agent may have open (RLIMIT_NOFILE).
    """
    fair = (descriptors - RESERVED_DESCRIPTORS) // max(1, containers)
    sessions = max(1, min(limits.processes, fair // DESCRIPTORS_PER_PROCESS))
    left = (fair - sessions * DESCRIPTORS_PER_SESSION) // DESCRIPTORS_PER_ACCOUNT
    return ProcessLimits(sessions, max(1, min(limits.account_processes, left)))
