"""Readers that share one place in the event loop: each turn of the loop serves one of them, in rotation.

Nested, containers share the place evenly, and within a container its processes. So a container that floods the
agent delays a hand-off of turns by one request at most, and other containers' requests by one of its own. Its
processes wait, because their sockets are full.
"""

from __future__ import annotations

import select
from collections.abc import Callable

from laneway.node_agent.sessions.packet_socket import Readers


class RoundRobin:
    """Serves one readable descriptor each time that its parent calls back."""

    def __init__(self, parent: Readers) -> None:
        """Take a place in the event loop, or in another rotation."""
        self._parent = parent
        self._epoll = select.epoll()
        self._readers: dict[int, Callable[[], None]] = {}
        parent.add_reader(self._epoll.fileno(), self._serve_one)

    def add_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call back, in rotation, for as long as the descriptor is readable."""
        self._readers[descriptor] = callback
        self._epoll.register(descriptor, select.EPOLLIN)

    def remove_reader(self, descriptor: int) -> None:
        """Remove a descriptor; call this before closing it. An unknown one is ignored."""
        if self._readers.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Give the place up."""
        if not self._epoll.closed:
            self._parent.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _serve_one(self) -> None:
        # The kernel moves a descriptor that it reports to the end of its list.
        for descriptor, _ in self._epoll.poll(0, 1):
            self._readers[descriptor]()
