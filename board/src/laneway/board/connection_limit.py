"""A bound on the connections of peers, so that a peer that opens many and asks nothing keeps no viewer out.

aiohttp closes a connection that is idle for its ``keepalive_timeout``, also before its first request is complete. It does not bound how
many there are, and neither does asyncio. So the listening socket does: when the board has its most connections, each further one takes
the place of the one that has been open longest without a request in progress.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiohttp import web

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BoundedListener(socket.socket):
    """A listening socket that keeps at most so many connections open.

    It sees a connection before its TLS handshake. Invariant: a connection with a request in progress is never closed for another one.
    """

    def __init__(self, listener: socket.socket, most: int) -> None:
        """Takes a listening socket over."""
        super().__init__(fileno=listener.detach())
        self._most = most
        self._open: dict[Any, socket.socket] = {}  # by the peer's address, oldest first
        self._busy: set[Any] = set()

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection.

        Raises:
            ConnectionAbortedError: all connections have requests in progress, so this one is closed.
        """
        connection, peer = super().accept()
        if len(self._open) >= self._most:
            self._open = {each: kept for each, kept in self._open.items() if kept.fileno() != -1}
        if len(self._open) >= self._most and not self._close_oldest_idle():
            connection.close()
            raise ConnectionAbortedError  # the event loop takes it for a peer that has left
        self._open.pop(peer, None)
        self._open[peer] = connection
        return connection, peer

    @web.middleware
    async def while_busy(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Keep a request's connection open until it is answered."""
        peer = request.get_extra_info("peername")
        self._busy.add(peer)
        try:
            return await handler(request)
        finally:
            self._busy.discard(peer)

    def _close_oldest_idle(self) -> bool:
        peer = next((each for each in self._open if each not in self._busy), None)
        if peer is None:
            return False
        with suppress(OSError):  # the peer has left
            self._open.pop(peer).shutdown(socket.SHUT_RDWR)  # the event loop reads the end, and closes it
        return True
