"""An HTTP server with bounded threads, memory and CPU time, whatever its clients do.

Each connection has a thread, as in the standard library's server. The number of threads is limited per
address and in total. If all are taken, a new connection replaces the one that has gone longest without a
complete request. Answers share the interpreter with turns, and it runs one thread at a time. So an address
waits after each answer, refusals of its requests included, and all addresses together get a tenth of the
time. Each connection costs a thread whatever it sends, and those that wait to be accepted delay others. So the
kernel drops the packets of an address that opens too many.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any

from laneway.api.listener import listen
from laneway.node_agent.clock import Clock, SystemClock
from laneway.node_agent.rate_limited_log import RateLimitedLog
from laneway.node_agent.report.answer_shares import AnswerShares
from laneway.node_agent.report.connection_rates import BLOCK_SECONDS, ConnectionRates
from laneway.node_agent.report.source_filter import drop_sources

_log = logging.getLogger(__name__)
MAX_CONNECTIONS = 64
MAX_CONNECTIONS_PER_ADDRESS = 16
MAX_CLOSING = 16
"""Threads of replaced connections that have not ended yet."""

MAX_REQUEST_BYTES = 16_384
REQUEST_SECONDS = 10.0
"""Time limit for a complete request, from the connection or the last answer on."""

ANSWER_SECONDS = 30.0
"""Time limit for reading the whole answer."""

_SWEEP_SECONDS = 0.5


@dataclass(eq=False, slots=True)
class _Client:
    """A connection with a thread."""

    address: str
    connection: socket.socket
    since_seconds: float
    """When its present state began."""

    answered: bool = False
    """A complete request has arrived and is being answered."""

    closing: threading.Event = field(default_factory=threading.Event)
    """Set when it has to close for another connection."""

    def disconnect(self) -> None:
        """Wake its thread, which finds the connection closed."""
        self.closing.set()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class BoundedHTTPServer(ThreadingHTTPServer):
    """Its handlers must be of :class:`BoundedHandler`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 4096
    """More than a source connects before it is blocked; the kernel may hold fewer (`net.core.somaxconn`)."""

    def __init__(
        self, address: tuple[str, int], handler: type[BoundedHandler], clock: Clock | None = None
    ) -> None:
        """Open the port, on all addresses where that is empty. The clock limits the rate of connections.

        Raises:
            OSError: the port is taken, or the address is not this machine's.
        """
        super().__init__(address, handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listen(*address, self.request_queue_size)
        self.server_address = self.socket.getsockname()
        self.socket.setblocking(False)
        self._lock = threading.Lock()
        self._clients: dict[socket.socket, _Client] = {}
        self._shares = AnswerShares()
        clock = clock or SystemClock()
        self._rates = ConnectionRates(clock)
        self._refusals = RateLimitedLog(_log, clock)
        self._swept_seconds = 0.0

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept the next connection whose address is not blocked, and close the ones before it.

        Raises:
            BlockingIOError: none waits.
        """
        while True:
            connection, peer = super().get_request()
            address = _plain(peer[0])
            blocked = self._rates.is_blocked(address)
            if not blocked and not self._rates.exceeded_by(address):
                return connection, (address, *peer[1:])
            connection.close()
            if not blocked:
                self._block(address)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether a connection gets a thread."""
        address = str(client_address[0])
        with self._lock:
            full = (
                sum(peer.address == address for peer in self._clients.values()) >= MAX_CONNECTIONS_PER_ADDRESS
            )
            full = full or not self._make_slot()
            if not full:
                self._clients[request] = _Client(address, request, time.monotonic())
        return not full

    def shutdown_request(self, request: Any) -> None:
        """Close and forget a connection."""
        with self._lock:
            self._clients.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close connections that take too long. Called at least twice a second."""
        now_seconds = time.monotonic()
        if now_seconds < self._swept_seconds + _SWEEP_SECONDS:
            return
        self._swept_seconds = now_seconds
        with self._lock:
            for peer in self._clients.values():
                limit_seconds = ANSWER_SECONDS if peer.answered else REQUEST_SECONDS
                if now_seconds - peer.since_seconds > limit_seconds:
                    peer.disconnect()
            self._shares.forget_idle(now_seconds)
        if self._rates.unblock_expired():
            drop_sources(self.socket, self._rates.blocked)
        self._refusals.flush_suppressed()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log the error, unless the connection broke."""
        if not isinstance(sys.exc_info()[1], OSError):
            _log.exception("answering a request failed")

    def may_answer(self, request: socket.socket) -> bool:
        """Wait for the cooldown of a complete request's address. Return False if the connection has to
        close first."""
        while True:
            with self._lock:
                peer = self._clients.get(request)
                if peer is None or peer.closing.is_set():
                    return False
                now_seconds = time.monotonic()
                wait_seconds = self._shares.begin(peer.address, now_seconds)
                if not wait_seconds:
                    peer.answered, peer.since_seconds = True, now_seconds
                    return True
            peer.closing.wait(wait_seconds)

    def answer_sent(self, request: socket.socket, worked_seconds: float) -> None:
        """Record that an answer was sent, and start the address's cooldown.

        Args:
            request: the connection.
            worked_seconds: the interpreter time that the answer cost.
        """
        with self._lock:
            peer = self._clients.get(request)
            if peer is None or not peer.answered:
                return
            now_seconds = time.monotonic()
            self._shares.end(peer.address, worked_seconds, now_seconds)
            peer.answered, peer.since_seconds = False, now_seconds

    def _block(self, address: str) -> None:
        """Have the kernel drop the address's packets, and say so."""
        self._rates.block(address)
        drop_sources(self.socket, self._rates.blocked)
        self._refusals.warning(
            "connections", f"blocked a source of too many connections {address=:s} seconds={BLOCK_SECONDS:g}"
        )

    def _make_slot(self) -> bool:
        """Return whether one more connection gets a thread, closing another one if necessary."""
        if len(self._clients) < MAX_CONNECTIONS:
            return True
        waiting = [g for g in self._clients.values() if not g.answered and not g.closing.is_set()]
        if not waiting or len(self._clients) >= MAX_CONNECTIONS + MAX_CLOSING:
            return False
        min(waiting, key=lambda peer: peer.since_seconds).disconnect()
        return True


def _plain(address: str) -> str:
    """Return the IPv4 address of a peer of a dual-stack socket, which writes it as ``::ffff:10.0.0.1``."""
    return address.removeprefix("::ffff:") if "." in address else address


class BoundedHandler(BaseHTTPRequestHandler):
    """Reports a connection's progress to the server, and reads only short requests."""

    protocol_version = "HTTP/1.1"
    timeout = REQUEST_SECONDS
    server: BoundedHTTPServer

    def handle_one_request(self) -> None:
        """Read a request, and answer it after its address's cooldown."""
        began_seconds = time.thread_time()
        self.rfile = _LimitedReader(self.rfile)  # type: ignore[assignment]
        try:
            super().handle_one_request()
        except _RequestTooLongError:
            self.requestline, self.request_version, self.command = "", "HTTP/1.1", ""
            self.close_connection = True
            if self.server.may_answer(self.connection):
                self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        finally:
            self.rfile = self.rfile.whole  # type: ignore[attr-defined]
            self.server.answer_sent(self.connection, time.thread_time() - began_seconds)

    def parse_request(self) -> bool:
        """Read the rest of a request after its first line. Return whether to answer it."""
        if not super().parse_request():
            return False
        if not self.server.may_answer(self.connection):
            self.close_connection = True
            return False
        return True


class _RequestTooLongError(Exception):
    """A request is longer than any legitimate one."""


class _LimitedReader:
    """Reads the lines of one request up to a total limit."""

    def __init__(self, whole: BufferedIOBase) -> None:
        self.whole = whole
        self._left_bytes = MAX_REQUEST_BYTES

    def readline(self, limit: int = -1) -> bytes:
        line = self.whole.readline(self._left_bytes + 1)
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            raise _RequestTooLongError
        return line
