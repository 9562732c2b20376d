"""The agent's HTTP server: what connections and refused requests may cost."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from ipaddress import ip_network
from itertools import count

import pytest
from laneway.node_agent.report.answer_shares import COOLDOWN_FACTOR, AnswerShares
from laneway.node_agent.report.bounded_server import (
    MAX_REQUEST_BYTES,
    BoundedHandler,
    BoundedHTTPServer,
)
from laneway.node_agent.report.connection_rates import BLOCK_SECONDS, CONNECTIONS_PER_SECOND
from laneway.node_agent.report.source_filter import drop_sources

from tests.support.node_agent.node import eventually
from tests.unit.node_agent.manual_clock import ManualClock

CLIENT = ("10.0.0.1", 40_000)
TOO_LONG = b"GET /" + b"x" * MAX_REQUEST_BYTES


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def server(clock: ManualClock) -> Iterator[BoundedHTTPServer]:
    made = BoundedHTTPServer(("", 0), BoundedHandler, clock)
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


ATTACKER, HONEST, ON_IPV6 = "127.0.0.2", "127.0.0.3", "::1"


def knock(server: BoundedHTTPServer, source: str) -> socket.socket:
    """A client's end of a connection that nobody has accepted."""
    on_ipv6 = ":" in source
    client = socket.socket(socket.AF_INET6 if on_ipv6 else socket.AF_INET)
    client.bind((source, 0))
    client.setblocking(False)
    client.connect_ex(("::1" if on_ipv6 else "127.0.0.1", server.server_address[1]))
    return client


def all_wait(server: BoundedHTTPServer, connections: int) -> bool:
    """Return whether so many connections wait to be accepted, or as many as may (tcpi_unacked and tcpi_sacked of a listening socket)."""
    info = server.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    waiting, most = struct.unpack_from("II", info, 24)
    return int(waiting) >= min(connections, int(most))


def accepted_sources(server: BoundedHTTPServer, connections: int) -> list[str]:
    """Accept, and close, all connections once so many wait: on a busy machine the kernel makes them a little later. Return the
    sources of those that the server does not refuse."""
    eventually(f"{connections} connections wait", lambda: all_wait(server, connections))
    sources: list[str] = []
    while True:
        try:
            accepted, address = server.get_request()
        except BlockingIOError:
            return sources
        sources.append(address[0])
        accepted.close()


@pytest.mark.parametrize(("attacker", "honest"), [(ATTACKER, HONEST), (ATTACKER, ON_IPV6), (ON_IPV6, HONEST)])
def test_a_source_of_too_many_connections_is_dropped_by_the_kernel_for_a_while(
    server: BoundedHTTPServer,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
    attacker: str,
    honest: str,
) -> None:
    flood = [knock(server, attacker) for _ in range(CONNECTIONS_PER_SECOND + 100)]
    assert accepted_sources(server, len(flood)) == [attacker] * CONNECTIONS_PER_SECOND
    assert caplog.messages == [f"blocked a source of too many connections address={attacker} seconds=10"]
    dropped = knock(server, attacker)
    other = knock(server, honest)
    assert accepted_sources(server, 1) == [honest]
    assert not select.select([], [dropped], [], 0)[1], "it is still connecting"
    clock.now_seconds += BLOCK_SECONDS
    server.service_actions()
    late = knock(server, attacker)
    assert attacker in accepted_sources(server, 1)
    for client in (*flood, dropped, other, late):
        client.close()


@pytest.mark.parametrize(
    ("source", "neighbours"), [(HONEST, "127.0.0.4/30"), (ON_IPV6, "::8/125"), (ON_IPV6, "1::1/128")]
)
def test_the_kernel_drops_no_other_source(server: BoundedHTTPServer, source: str, neighbours: str) -> None:
    drop_sources(server.socket, map(str, ip_network(neighbours)))
    client = knock(server, source)
    assert accepted_sources(server, 1) == [source]
    client.close()


@pytest.mark.parametrize("network", ["200.0.0.0/22", "fe00:aaaa:f000:1:f000:1:f000:0/118"])
def test_the_kernel_drops_as_many_sources_as_fit(server: BoundedHTTPServer, network: str) -> None:
    drop_sources(server.socket, map(str, ip_network(network)))


def test_refusing_a_request_delays_the_next_answer_to_its_address(
    server: BoundedHTTPServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, cost_seconds = count(), 0.05
    monkeypatch.setattr(time, "thread_time", lambda: next(calls) * cost_seconds)
    begun_seconds, end = list[float](), AnswerShares.end

    def begin_cooldown(shares: AnswerShares, address: str, cost: float, now_seconds: float) -> None:
        begun_seconds.append(now_seconds)
        end(shares, address, cost, now_seconds)

    monkeypatch.setattr(AnswerShares, "end", begin_cooldown)
    (first, accepted_first), (second, accepted_second) = connect(server), connect(server)
    threads = [serve(server, accepted_first)]
    first.sendall(TOO_LONG)
    assert first.recv(1 << 16).startswith(b"HTTP/1.1 431")
    threads[0].join()
    threads.append(serve(server, accepted_second))
    second.sendall(TOO_LONG)
    assert second.recv(1 << 16).startswith(b"HTTP/1.1 431")
    answered_seconds = time.monotonic()
    assert answered_seconds - begun_seconds[0] >= COOLDOWN_FACTOR * cost_seconds, "its address waits"
    threads[1].join()
    for client in (first, second):
        client.close()
