"""A proxy between one replica of the operator and the real API server, in which a fault does its harm."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from tests.support.api_faults.fault import Answer, Cut, Fault, Request
from tests.support.api_faults.journal import Journal
from tests.support.api_faults.namespace_view import NamespaceView
from tests.support.api_faults.upstream import Upstream

_KEPT_HEADERS = {"accept", "content-type", "user-agent"}


class FaultProxy:
    """Passes requests on, with the credentials of the operator's service account."""

    def __init__(
        self,
        up: Upstream,
        view: NamespaceView,
        fault: Fault,
        journal: Journal,
    ) -> None:
        self._up = up
        self._view = view
        self._fault = fault
        self._journal = journal

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        """Serve one request."""
        # The token names the sending process: its request may be read after it was killed and its successor has started.
        writer = incoming.headers.get("Authorization", "").removeprefix("Bearer ")
        path, query = self._view.narrow(incoming.path, incoming.query)
        headers = {name: value for name, value in incoming.headers.items() if name.lower() in _KEPT_HEADERS}
        request = Request(writer, incoming.method, path, query, headers, await incoming.read())
        try:
            changed = await self._fault.before(request)
            if isinstance(changed, Request) and changed.watches:
                return await self._watch(incoming, changed)
            return await self._answer(incoming, request, changed)
        except (Cut, ConnectionResetError):  # the fault did it, or the client is dead
            if incoming.transport is not None:
                incoming.transport.abort()
            raise asyncio.CancelledError from None

    async def _answer(
        self, incoming: web.Request, request: Request, changed: Request | Answer
    ) -> web.StreamResponse:
        if isinstance(changed, Answer):
            answer = changed
        else:
            # A request that has come this far is carried out, even if its sender is gone.
            answer = await asyncio.shield(asyncio.ensure_future(self._pass_on(changed)))
            answer = await self._fault.after(request, answer)
        response = web.Response(
            status=answer.status, body=answer.body, content_type=answer.content_type, headers=answer.headers
        )
        await response.prepare(incoming)
        await response.write_eof()
        await self._fault.sent(request)
        return response

    async def _pass_on(self, request: Request) -> Answer:
        came_seconds = time.monotonic()
        try:
            async with self._send(request) as upstream:
                answer = Answer(upstream.status, await upstream.read(), upstream.content_type)
        except aiohttp.ClientError:
            raise Cut from None  # the API server is away: so it looks from here, too
        if request.writes and answer.status < 400:
            what, version = str(request), answer.version
            self._journal.note(request.writer, what, version, came_seconds, lease=request.of_lease)
        return answer

    async def _watch(self, incoming: web.Request, request: Request) -> web.StreamResponse:
        try:
            async with self._send(request) as upstream:
                response = web.StreamResponse(
                    status=upstream.status, headers={"Content-Type": upstream.headers["Content-Type"]}
                )
                await response.prepare(incoming)
                async for line in self._fault.events(request, _lines(upstream)):
                    await response.write(line)
                return response
        except aiohttp.ClientError:
            raise Cut from None

    def _send(self, request: Request) -> aiohttp.client._RequestContextManager:
        url = URL(self._up.url + request.path).with_query(request.query)
        return self._up.session.request(
            request.method, url, headers=request.headers, data=request.body or None
        )


async def _lines(upstream: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    while line := await upstream.content.readline():
        yield line


@asynccontextmanager
async def serving(proxy: FaultProxy, folder: Path) -> AsyncIterator[Path]:
    """Run a proxy on loopback; gives a kubeconfig that leads to it."""
    application = web.Application(client_max_size=2**24)
    application.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.2, handler_cancellation=True)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    try:
        await web.SockSite(runner, listener).start()
        path = folder / "through-proxy.kubeconfig"
        path.write_text(_kubeconfig(f"http://127.0.0.1:{listener.getsockname()[1]}"))
        yield path
    finally:
        await _stop_accepting(listener)
        with suppress(asyncio.CancelledError):
            await runner.cleanup()


async def _stop_accepting(listener: socket.socket) -> None:
    """Wait until all accepted connections belong to the server. asyncio creates a connection's transport one iteration after it is
    accepted, and loses the connection if the server was closed meanwhile (Python 3.11, ``Server._attach``)."""
    asyncio.get_running_loop().remove_reader(listener)
    for _ in range(3):
        await asyncio.sleep(0)


def _kubeconfig(server: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "current-context": "proxy",
        }
    )
