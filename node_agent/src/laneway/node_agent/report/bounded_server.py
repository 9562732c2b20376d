"""An HTTP server whose threads, memory and share of the interpreter are bounded, whoever connects.

Each connection has a thread, as in the standard library's server, and at most so many have one: those of one address, and all
together. When all are taken, the newcomer takes the place of who has been connected the longest without having sent a whole
request. Answers come from the same interpreter as turns, and it runs one thread at a time: an address that has had some of its
time waits before it is answered again, so that all addresses together have a tenth of it.
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

_log = logging.getLogger(__name__)
MOST_CONNECTIONS = 64
MOST_OF_AN_ADDRESS = 16
MOST_LEAVING = 16
"""Threads of connections that had to make room and have not ended yet."""

MOST_REQUEST_BYTES = 16_384
REQUEST_SECONDS = 10.0
"""To send a whole request in, from the connection or the last answer on."""

ANSWER_SECONDS = 30.0
"""To take the whole answer in."""

REST_FACTOR = 9
"""How long an address waits for, in times what an answer cost, and for each address that there is."""

LONGEST_REST_SECONDS = 20.0
_ANSWER_ALONE_SECONDS = 1.0
"""An answer that takes longer, because it is not read, does not keep its address from the next one."""

_TURNED_AWAY_AT_ONCE = 32
_TURN_AWAY_SECONDS = 0.05
"""Pause after so many that were turned away: some six hundred a second are looked at, and turns go on in between."""

_SWEEP_SECONDS = 0.5


@dataclass(eq=False, slots=True)
class _Guest:
    """A connection that has a thread."""

    address: str
    connection: socket.socket
    since_seconds: float
    """Since when it is in the state that it is in."""

    answered: bool = False
    """A whole request has come and is being answered."""

    leaves: threading.Event = field(default_factory=threading.Event)
    """It has to make room."""

    def send_away(self) -> None:
        """Wake its thread, which finds the connection closed."""
        self.leaves.set()
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


class BoundedHTTPServer(ThreadingHTTPServer):
    """Give it handlers that are :class:`BoundedHandler`."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 512

    def __init__(self, place: tuple[str, int], handler: type[BoundedHandler]) -> None:
        """Open the port.

        Raises:
            OSError: the port is taken, or the address is not this machine's.
        """
        super().__init__(place, handler)
        self._lock = threading.Lock()
        self._guests: dict[socket.socket, _Guest] = {}
        self._rests_until_seconds: dict[str, float] = {}
        self._turned_away = 0
        self._swept_seconds = 0.0

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether a connection gets a thread."""
        address = str(client_address[0])
        with self._lock:
            full = sum(guest.address == address for guest in self._guests.values()) >= MOST_OF_AN_ADDRESS
            full = full or not self._has_room()
            if not full:
                self._guests[request] = _Guest(address, request, time.monotonic())
        if full:
            self._turned_away += 1
            if self._turned_away % _TURNED_AWAY_AT_ONCE == 0:
                time.sleep(_TURN_AWAY_SECONDS)
        return not full

    def shutdown_request(self, request: Any) -> None:
        """Close a connection, and forget it."""
        with self._lock:
            self._guests.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Called at least twice a second: ends what takes too long."""
        now_seconds = time.monotonic()
        if now_seconds < self._swept_seconds + _SWEEP_SECONDS:
            return
        self._swept_seconds = now_seconds
        with self._lock:
            for guest in self._guests.values():
                patience_seconds = ANSWER_SECONDS if guest.answered else REQUEST_SECONDS
                if now_seconds - guest.since_seconds > patience_seconds:
                    guest.send_away()
            self._rests_until_seconds = {
                address: until_seconds
                for address, until_seconds in self._rests_until_seconds.items()
                if until_seconds > now_seconds
            }

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong, unless the connection broke: that is its client's business."""
        if not isinstance(sys.exc_info()[1], OSError):
            _log.exception("a request could not be answered")

    def may_answer(self, request: socket.socket) -> bool:
        """Wait until the address of a request that has come as a whole has rested; false if it has to make room first."""
        while True:
            with self._lock:
                guest = self._guests.get(request)
                if guest is None or guest.leaves.is_set():
                    return False
                now_seconds = time.monotonic()
                until_seconds = self._rests_until_seconds.get(guest.address, now_seconds)
                if now_seconds >= until_seconds:
                    self._rests_until_seconds[guest.address] = now_seconds + _ANSWER_ALONE_SECONDS
                    guest.answered, guest.since_seconds = True, now_seconds
                    return True
            guest.leaves.wait(until_seconds - now_seconds)

    def answer_is_sent(self, request: socket.socket, worked_seconds: float) -> None:
        """Note that an answer has gone out, and let the address rest for it.

        Args:
            request: the connection.
            worked_seconds: what the answer cost of the interpreter's time.
        """
        with self._lock:
            guest = self._guests.get(request)
            if guest is None or not guest.answered:
                return
            addresses = {other.address for other in self._guests.values()}
            rest_seconds = min(REST_FACTOR * len(addresses) * worked_seconds, LONGEST_REST_SECONDS)
            now_seconds = time.monotonic()
            self._rests_until_seconds[guest.address] = now_seconds + rest_seconds
            guest.answered, guest.since_seconds = False, now_seconds

    def _has_room(self) -> bool:
        """Whether one more gets a thread; sees to it that somebody leaves for that."""
        if len(self._guests) < MOST_CONNECTIONS:
            return True
        waiting = [g for g in self._guests.values() if not g.answered and not g.leaves.is_set()]
        if not waiting or len(self._guests) >= MOST_CONNECTIONS + MOST_LEAVING:
            return False
        min(waiting, key=lambda guest: guest.since_seconds).send_away()
        return True


class BoundedHandler(BaseHTTPRequestHandler):
    """Tells the server how far a connection has come, and reads no more than a short request."""

    protocol_version = "HTTP/1.1"
    timeout = REQUEST_SECONDS
    server: BoundedHTTPServer

    def handle_one_request(self) -> None:
        """Read a request, and answer it when its address has rested."""
        began_seconds = time.thread_time()
        self.rfile = _ShortReader(self.rfile)  # type: ignore[assignment]
        try:
            super().handle_one_request()
        except _LongRequestError:
            self.requestline, self.request_version, self.command = "", "HTTP/1.1", ""
            self.close_connection = True
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        finally:
            self.rfile = self.rfile.whole  # type: ignore[attr-defined]
            self.server.answer_is_sent(self.connection, time.thread_time() - began_seconds)

    def parse_request(self) -> bool:
        """Read the rest of a request, after its first line; returns whether it is to be answered."""
        if not super().parse_request():
            return False
        if not self.server.may_answer(self.connection):
            self.close_connection = True
            return False
        return True


class _LongRequestError(Exception):
    """A request is longer than it has any reason to be."""


class _ShortReader:
    """Reads lines of one request, which has so many bytes at most."""

    def __init__(self, whole: BufferedIOBase) -> None:
        self.whole = whole
        self._left_bytes = MOST_REQUEST_BYTES

    def readline(self, limit: int = -1) -> bytes:
        line = self.whole.readline(self._left_bytes + 1)
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            raise _LongRequestError
        return line
