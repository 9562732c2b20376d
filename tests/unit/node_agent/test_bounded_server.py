"""The agent's HTTP server: what connections and refused requests may cost."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest
from laneway.node_agent.report.bounded_server import (
    ACCEPT_BURST,
    ACCEPTS_PER_SECOND,
    MAX_REQUEST_BYTES,
    BoundedHandler,
    BoundedHTTPServer,
)

from tests.unit.node_agent.manual_clock import ManualClock

CLIENT = ("10.0.0.1", 40_000)
TOO_LONG = b"GET /" + b"x" * MAX_REQUEST_BYTES


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> Iterator[BoundedHTTPServer]:
    def sleep(seconds: float) -> None:
        clock.now_seconds += seconds

    made = BoundedHTTPServer(("127.0.0.1", 0), BoundedHandler, clock, sleep)
    yield made
    made.server_close()


def connect(server: BoundedHTTPServer) -> tuple[socket.socket, socket.socket]:
    """A client's end of an accepted connection, and the server's."""
    client, accepted = socket.socketpair()
    assert server.verify_request(accepted, CLIENT)
    return client, accepted


def serve(server: BoundedHTTPServer, accepted: socket.socket) -> threading.Thread:
    def handle() -> None:
        BoundedHandler(accepted, CLIENT, server)
        server.shutdown_request(accepted)

    thread = threading.Thread(target=handle)
    thread.start()
    return thread


def test_connections_are_accepted_at_a_limited_rate(server: BoundedHTTPServer, clock: ManualClock) -> None:
    connections = 10 * ACCEPTS_PER_SECOND
    began_seconds = clock.monotonic()
    for _ in range(connections):
        client, accepted = connect(server)
        client.close()
        server.shutdown_request(accepted)
    elapsed_seconds = clock.monotonic() - began_seconds
    assert elapsed_seconds >= (connections - 2 * ACCEPT_BURST) / ACCEPTS_PER_SECOND


def test_refusing_a_request_delays_the_next_answer_to_its_address(
    server: BoundedHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs_seconds = count(step=1)
    monkeypatch.setattr(time, "thread_time", lambda: next(costs_seconds) / 20)
    (first, accepted_first), (second, accepted_second) = connect(server), connect(server)
    threads = [serve(server, accepted_first)]
    first.sendall(TOO_LONG)
    assert first.recv(1 << 16).startswith(b"HTTP/1.1 431")
    threads[0].join()
    threads.append(serve(server, accepted_second))
    second.sendall(TOO_LONG)
    assert not select.select([second], [], [], 0.1)[0], "its address waits"
    assert second.recv(1 << 16).startswith(b"HTTP/1.1 431")
    threads[1].join()
    for client in (first, second):
        client.close()
