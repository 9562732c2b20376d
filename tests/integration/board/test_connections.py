"""Peers that hold connections to the board and ask nothing, over real sockets."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from aiohttp import web
from laneway.api.listener import listen
from laneway.board.connection_limit import BoundedListener

MOST = 3
GET = "GET {} HTTP/1.1\r\nHost: board\r\n\r\n"

Peer = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Bounded:
    """A server whose path /stream sends a line and then holds the request."""

    def __init__(self) -> None:
        self.listener = BoundedListener(listen("127.0.0.1", 0), MOST)
        self.end_streams = asyncio.Event()
        self.app = web.Application(middlewares=[self.listener.while_busy])
        self.app.add_routes([web.get("/healthz", self._answer), web.get("/stream", self._stream)])
        self._peers: list[Peer] = []

    async def open(self, sent: str = "") -> Peer:
        peer = await asyncio.open_connection(*self.listener.getsockname())
        self._peers.append(peer)
        peer[1].write(sent.encode())
        return peer

    async def open_stream(self) -> Peer:
        peer = await self.open(GET.format("/stream"))
        await peer[0].readuntil(b"begun\n")
        return peer

    def close(self) -> None:
        for _, writer in self._peers:
            writer.transport.abort()

    async def _answer(self, _: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"begun\n")
        await self.end_streams.wait()
        await response.write(b"ended\n")
        return response


@pytest_asyncio.fixture
async def bounded() -> AsyncIterator[Bounded]:
    server = Bounded()
    runner = web.AppRunner(server.app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.SockSite(runner, server.listener).start()
    yield server
    server.close()
    await runner.cleanup()


@pytest.mark.parametrize("sent", ["", "GET /healthz HT", GET.format("/healthz")])
async def test_a_new_connection_takes_the_place_of_the_oldest_that_asks_nothing(
    bounded: Bounded, sent: str
) -> None:
    streaming, _ = await bounded.open_stream()
    oldest, _ = await bounded.open(sent)
    if sent.endswith("\r\n\r\n"):
        await oldest.readuntil(b"ok\n")
    for _ in range(MOST):
        answered, _ = await bounded.open(GET.format("/healthz"))
        await answered.readuntil(b"ok\n")
    assert await oldest.read() == b""
    bounded.end_streams.set()
    await streaming.readuntil(b"ended\n")


async def test_no_stream_ends_for_a_new_connection(bounded: Bounded) -> None:
    streams = [await bounded.open_stream() for _ in range(MOST)]
    refused, _ = await bounded.open(GET.format("/healthz"))
    with suppress(ConnectionResetError):  # when it is closed before its request is read
        assert await refused.read() == b""
    bounded.end_streams.set()
    for reader, _ in streams:
        await reader.readuntil(b"ended\n")


SERVES = """
from aiohttp import web
from laneway.api.listener import listen
from laneway.board import main
main._IDLE_SECONDS = 0.3
listener = listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
main.serve(web.Application(), listener)
"""


def test_a_connection_without_a_complete_request_is_closed() -> None:
    board = subprocess.Popen([sys.executable, "-c", SERVES], stdout=subprocess.PIPE, text=True)
    try:
        assert board.stdout is not None
        address = ("127.0.0.1", int(board.stdout.readline()))
        with (
            socket.create_connection(address, timeout=60) as silent,
            socket.create_connection(address, timeout=60) as slow,
        ):
            slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: b\r\n")
            assert (silent.recv(1), slow.recv(1)) == (b"", b"")
    finally:
        board.terminate()
        board.communicate(timeout=60)
