"""Ports that nobody else is given before the programs listen that they are for, or while one of these is away."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def held_ports(address: str, count: int) -> Iterator[list[int]]:
    """Holds different free ports of an address, and yields them.

    Each has a socket that does not listen. The kernel then chooses the port for nobody, and lets a program listen there whose own socket
    has SO_REUSEADDR, as Go and Python set it. Without such a program, connections are refused.
    """
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((address, 0))
        yield [each.getsockname()[1] for each in sockets]
