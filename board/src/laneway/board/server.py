"""The board's HTTP server: the page, and streams of server-sent events for it.

The page reads the streams with ``fetch``, because an ``EventSource`` cannot send the header ``Authorization``. A cookie would be sent
by other sites' pages as well, so there is none.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress
from http import HTTPStatus
from importlib import resources
from typing import Any

from aiohttp import web
from laneway.board.access import Access, UnauthorizedError
from laneway.board.api_server import APIServer, Credential, Endpoint, RefusedError, UnreachableError, View
from laneway.board.feed import AUTHENTICATED, UNAUTHENTICATED, Feed, failure
from laneway.board.turn_feed import follow_turns
from laneway.board.views.event_view import event_views

_SECURITY_HEADERS = {
    "Content-Security-Policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_KEEPALIVE_SECONDS = 15.0
_WRITE_SECONDS = 60.0
"""A viewer that reads an answer no faster loses its connection, and with it the watches and the memory that it costs."""
_VIEWS_OF_A_PIECE = 100
_MOST_STREAMS = 256
_MOST_STREAMS_OF_A_VIEWER = 32
"""A page has two while it is seen."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(endpoint: Endpoint, access: Access, agents_namespaces: Sequence[str]) -> web.Application:
    """Return the board for one cluster.

    Args:
        endpoint: the API server.
        access: who may see the page, and with whose rights.
        agents_namespaces: the namespaces that may have the node agents' pods, in the order of the search; empty: all.
    """
    app = web.Application(middlewares=[_errors])
    app.on_response_prepare.append(_add_security_headers)
    app.add_routes([web.get(path, _page_handler(body, kind)) for path, (body, kind) in _page().items()])
    board = _Board(access, agents_namespaces)
    app.add_routes(
        [
            web.get("/healthz", _healthz),
            web.get("/api/objects", board.objects),
            web.get("/api/turns", board.turns),
            web.get("/api/events", board.events),
        ]
    )

    async def connection(_: web.Application) -> AsyncIterator[None]:
        async with APIServer(endpoint) as board.api:
            yield

    app.cleanup_ctx.append(connection)
    return app


class _Board:
    api: APIServer

    def __init__(self, access: Access, agents_namespaces: Sequence[str]) -> None:
        self._access = access
        self._agents_namespaces = agents_namespaces
        self._streams = Counter[str]()  # by the viewer's credential
        self._authenticated = 0  # those of viewers whom the API server knows

    async def objects(self, request: web.Request) -> web.StreamResponse:
        """Stream the jobs of a namespace (or of all) and the nodes, and their changes."""
        credential = self._admit(request)
        return await self._stream(request, self._object_messages(credential, _name(request, "namespace", "")))

    async def turns(self, request: web.Request) -> web.StreamResponse:
        """Stream the turns of a node."""
        credential = self._admit(request)
        messages = follow_turns(self.api, credential, self._agents_namespaces, _name(request, "node"))
        return await self._stream(request, _named("turns", messages))

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Return the events of a job."""
        credential = self._admit(request)
        namespace, job = _name(request, "namespace"), _name(request, "job")
        try:
            events = await self.api.job_events(namespace, job, credential)
            answer: dict[str, Any] = {
                "source": None,
                "events": event_views(events, request.query.get("uid", "")),
            }
        except (RefusedError, UnreachableError) as error:
            answer = {"source": failure(error), "events": []}
        response = web.json_response(answer)
        await response.prepare(request)
        with suppress(ConnectionError, TimeoutError):
            await _within_limit(request, response.write_eof())
        return response

    def _admit(self, request: web.Request) -> Credential:
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise web.HTTPForbidden(text="The board answers its own page only.")
        return self._access.admit(request)

    async def _object_messages(
        self, credential: Credential, namespace: str
    ) -> AsyncIterator[tuple[str, Any]]:
        async with Feed(self.api, credential, namespace) as feed:
            while True:
                messages = await feed.next(_KEEPALIVE_SECONDS)
                while messages:
                    message = messages.pop(name := next(iter(messages)))
                    refused = _is_refusal(message)
                    yield name, message
                    del message  # it may be large, and the next one may be hours away
                    if refused:
                        return
                yield "keepalive", None

    async def _stream(
        self, request: web.Request, messages: AsyncIterator[tuple[str, Any]]
    ) -> web.StreamResponse:
        viewer = request.headers.get("Authorization", "")
        if self._authenticated >= _MOST_STREAMS:
            raise _full()
        if self._streams[viewer] >= _MOST_STREAMS_OF_A_VIEWER:
            raise web.HTTPTooManyRequests(
                text=f"You have {_MOST_STREAMS_OF_A_VIEWER} streams already. Close other pages of the board."
            )
        headers = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        self._streams[viewer] += 1
        authenticated = False
        try:
            async with aclosing(messages):  # type: ignore[type-var]
                async for name, message in messages:
                    if not authenticated and _is_authenticated(message):
                        if self._authenticated >= _MOST_STREAMS:
                            if response.prepared:
                                break
                            raise _full()
                        authenticated = True
                        self._authenticated += 1
                    if not response.prepared:
                        if _is_refusal(message):
                            raise UnauthorizedError(
                                f"The cluster refuses the token: {message['source']['message']}"
                            )
                        await response.prepare(request)
                    await _within_limit(request, _write(response, _pieces(name, message)))
                    del message
        except (ConnectionError, TimeoutError):
            pass  # the viewer has left, or reads nothing
        finally:
            self._streams -= Counter({viewer: 1})
            self._authenticated -= authenticated
        return response


def _full() -> web.HTTPServiceUnavailable:
    return web.HTTPServiceUnavailable(text=f"The board has {_MOST_STREAMS} streams already. Try again later.")


def _is_authenticated(message: dict[str, Any] | None) -> bool:
    """Whether a message of a stream shows that the API server knows the viewer. Before that, a stream takes no place of a viewer's."""
    return ((message or {}).get("source") or {}).get("state") in AUTHENTICATED


def _is_refusal(message: dict[str, Any] | None) -> bool:
    """Whether a message of a stream says that the API server does not know the viewer: then the stream ends."""
    return ((message or {}).get("source") or {}).get("state") == UNAUTHENTICATED


def _pieces(name: str, message: dict[str, Any] | None) -> Iterator[bytes]:
    """Yield an event in pieces: that of ten thousand jobs would be three copies of 25 MB if it were put together."""
    yield f"event: {name}\ndata: ".encode()
    if message is None or "set" not in message:
        yield json.dumps(message, allow_nan=False).encode()
    else:
        views: list[View] = message["set"]
        rest = json.dumps({key: value for key, value in message.items() if key != "set"}, allow_nan=False)
        yield f'{rest[:-1]}, "set": ['.encode()
        for start in range(0, len(views), _VIEWS_OF_A_PIECE):
            yield (b"," if start else b"") + b",".join(
                view.json for view in views[start : start + _VIEWS_OF_A_PIECE]
            )
        yield b"]}"
    yield b"\n\n"


async def _write(response: web.StreamResponse, pieces: Iterator[bytes]) -> None:
    for piece in pieces:
        await response.write(piece)


async def _within_limit(request: web.Request, writing: Awaitable[None]) -> None:
    """Write to a viewer; raise TimeoutError if it takes too long. Closing would keep what is unsent until it is read."""
    try:
        await asyncio.wait_for(writing, _WRITE_SECONDS)
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
        raise


async def _named(name: str, messages: AsyncIterator[Any]) -> AsyncIterator[tuple[str, Any]]:
    async with aclosing(messages):  # type: ignore[type-var]
        async for message in messages:
            yield name, message


def _name(request: web.Request, parameter: str, default: str | None = None) -> str:
    """Return a parameter that names a Kubernetes object."""
    value = request.query.get(parameter, default)
    if value is None or (value != default and not _NAME.fullmatch(value)):
        raise web.HTTPBadRequest(
            text=f"{parameter}: write the name of a Kubernetes object: lower-case letters, digits, '-' and '.'"
        )
    return value


def _page() -> dict[str, tuple[bytes, str]]:
    """Return the files of the page by path. Only these are served."""
    folder = resources.files("laneway.board") / "page"
    files = {
        f"/{file.name}": (file.read_bytes(), _TYPES[file.name[file.name.rindex(".") :]])
        for file in folder.iterdir()
        if file.name.endswith(tuple(_TYPES))
    }
    files["/"] = files.pop("/index.html")
    return files


def _page_handler(body: bytes, kind: str) -> _Handler:
    async def handle(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=kind, charset="utf-8")

    return handle


async def _healthz(_: web.Request) -> web.StreamResponse:
    return web.Response(text="ok\n")


async def _add_security_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_SECURITY_HEADERS)


@web.middleware
async def _errors(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except UnauthorizedError as error:
        return web.json_response({"message": str(error)}, status=HTTPStatus.UNAUTHORIZED)
