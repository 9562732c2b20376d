"""The Kubernetes API server, with the rights of the viewer. The only module that talks to the cluster; it only reads."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
from laneway.api.names import GROUP, VERSION
from laneway.board.views.fields import Object, items, number, part, text
from yarl import URL

Credential = Callable[[], Awaitable[str | None]]
"""Returns the header ``Authorization`` of a request; None where the TLS client certificate says who asks."""

View = dict[str, Any]

_AGENT_PORT = 9464
_AGENT_SELECTOR = "app.kubernetes.io/part-of=laneway,app.kubernetes.io/component=node"
_PAGE_OBJECTS = 250
_WATCH_SECONDS = 240
_PAUSE_SECONDS = 0.5
"""Between two watches, should a proxy end each at once."""
_LONGEST_ANSWER_BYTES = 64 << 20
_LONGEST_LINE_BYTES = 16 << 20
_REQUEST = aiohttp.ClientTimeout(total=30, sock_connect=5)
_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_WATCH_SECONDS + 60)


@dataclass(frozen=True)
class Endpoint:
    """Where the API server is, and how its identity is verified."""

    url: str
    context: ssl.SSLContext | None = None
    """Verifies the server, and holds the client's certificate where there is one; None: the system's authorities."""

    server_name: str | None = None
    """The name in the server's certificate, where it differs from the one in ``url``."""

    proxy: str | None = None


def tls_context(authority: str | None) -> ssl.SSLContext:
    """Return a context that verifies the API server with a file of authorities; None: with the system's.

    As kubectl does, it accepts authorities without the extensions that Python asks for since 3.13: clusters have such ones.
    """
    context = ssl.create_default_context(cafile=authority)
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


@dataclass(frozen=True)
class Listed:
    """All objects there are now."""

    views: list[View]


@dataclass(frozen=True)
class Changed:
    """An object is new or has changed."""

    view: View


@dataclass(frozen=True)
class Removed:
    """An object was deleted; the view is its last one."""

    view: View


Change = Listed | Changed | Removed


class RefusedError(Exception):
    """The API server refused a request; the message is the server's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(Exception):
    """The API server does not answer, or its answer is no answer of the Kubernetes API."""


class APIServer:
    """GET requests on behalf of viewers. Use it as a context manager on an event loop."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __aenter__(self) -> Self:
        # No cookies, no redirects, no proxy of the environment: a viewer's token goes to the API server and nowhere else.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), cookie_jar=aiohttp.DummyCookieJar(), trust_env=False
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def follow_jobs(
        self, namespace: str, credential: Credential, view: Callable[[Object], View]
    ) -> AsyncIterator[Change]:
        """Yield the TrainingJobs of a namespace (empty: of all), then their changes, without end.

        Raises:
            RefusedError, UnreachableError: the stream is over; call it again later.
        """
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        async for change in self._follow(f"/apis/{GROUP}/{VERSION}{within}/trainingjobs", credential, view):
            yield change

    async def follow_nodes(
        self, credential: Credential, view: Callable[[Object], View]
    ) -> AsyncIterator[Change]:
        """Yield the GPUNodes, then their changes, as ``follow_jobs`` does."""
        async for change in self._follow(f"/apis/{GROUP}/{VERSION}/gpunodes", credential, view):
            yield change

    async def job_events(self, namespace: str, job: str, credential: Credential) -> list[Object]:
        """Return the events about a TrainingJob."""
        query = {"fieldSelector": f"involvedObject.kind=TrainingJob,involvedObject.name={job}"}
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
        return items(await self._get(path, query, credential), "items")

    async def agent_pod(self, namespace: str, node: str, credential: Credential) -> str:
        """Return the name of the node agent's pod on a node.

        Raises:
            RefusedError: with status 404 where there is none.
        """
        query = {
            "labelSelector": _AGENT_SELECTOR,
            "fieldSelector": f"spec.nodeName={node},status.phase=Running",
        }
        found = await self._get(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods", query, credential)
        names = [text(pod, "metadata", "name") for pod in items(found, "items")]
        if not names:
            raise RefusedError(
                HTTPStatus.NOT_FOUND, f"no node agent runs on node {node} in namespace {namespace}"
            )
        return names[0]

    async def turns(
        self, namespace: str, pod: str, since_seconds: float, credential: Credential
    ) -> list[object]:
        """Return the turns that an agent knows and that ended after a time or still run, through the API server's pod proxy."""
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}:{_AGENT_PORT}/proxy/turns"
        try:
            found = await self._get(path, {"since": f"{since_seconds:.6f}"}, credential)
        except RefusedError as error:
            if error.status != HTTPStatus.BAD_REQUEST:
                raise
            # The port speaks TLS, and the API server's proxy would not pass the viewer's token on.
            raise RefusedError(error.status, "not available with metrics.secure of the chart") from error
        return found if isinstance(found, list) else []

    async def _follow(
        self, path: str, credential: Credential, view: Callable[[Object], View]
    ) -> AsyncIterator[Change]:
        while True:
            views, version = await self._list(path, credential, view)
            yield Listed(views)
            try:
                while True:
                    async for event in self._watch(path, version, credential):
                        version = text(event, "object", "metadata", "resourceVersion") or version
                        if (change := _change(event, view)) is not None:
                            yield change
                    await asyncio.sleep(_PAUSE_SECONDS)
            except RefusedError as error:
                if error.status != HTTPStatus.GONE:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _list(
        self, path: str, credential: Credential, view: Callable[[Object], View]
    ) -> tuple[list[View], str]:
        views: list[View] = []
        query = {"limit": str(_PAGE_OBJECTS)}
        while True:
            page = await self._get(path, query, credential)
            views += [view(item) for item in items(page, "items")]
            query["continue"] = text(page, "metadata", "continue")
            if not query["continue"]:
                break
        version = text(page, "metadata", "resourceVersion")
        if not version:
            raise UnreachableError(f"GET {path}: the answer is no list of the Kubernetes API")
        return views, version

    async def _watch(self, path: str, version: str, credential: Credential) -> AsyncIterator[Object]:
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with self._request(path, query, credential, _STREAM) as response:
            rest = bytearray()
            async for chunk in response.content.iter_any():
                rest += chunk
                if len(rest) > _LONGEST_LINE_BYTES:
                    raise UnreachableError(
                        f"GET {path}: a line of the watch is longer than {_LONGEST_LINE_BYTES} bytes"
                    )
                *lines, last = rest.split(b"\n")
                rest = last
                for line in lines:
                    event = _document(line, path)
                    if text(event, "type") == "ERROR":
                        code = number(event, "object", "code") or 0
                        raise RefusedError(code, text(event, "object", "message"))
                    yield event

    async def _get(self, path: str, query: Mapping[str, str], credential: Credential) -> Any:
        async with self._request(path, query, credential, _REQUEST) as response:
            return _document(await _body(response, path), path)

    @asynccontextmanager
    async def _request(
        self, path: str, query: Mapping[str, str], credential: Credential, limits: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        url = URL(self._endpoint.url.rstrip("/") + path, encoded=True).with_query(query)
        authorization = await credential()
        try:
            async with self._session.get(
                url,
                headers={"Accept": "application/json"}
                | ({"Authorization": authorization} if authorization else {}),
                ssl=self._endpoint.context or True,
                server_hostname=self._endpoint.server_name,
                proxy=self._endpoint.proxy,
                timeout=limits,
                allow_redirects=False,
            ) as response:
                if response.status != HTTPStatus.OK:
                    raise RefusedError(
                        response.status, _message(await _body(response, path), response.reason)
                    )
                yield response
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise UnreachableError(f"the API server does not answer: {error or 'timed out'}") from error


def _change(event: Object, view: Callable[[Object], View]) -> Change | None:
    """Return what a watch event says; None for a bookmark."""
    kind, found = text(event, "type"), part(event, "object")
    if found is None or kind not in ("ADDED", "MODIFIED", "DELETED"):
        return None
    return Removed(view(found)) if kind == "DELETED" else Changed(view(found))


async def _body(response: aiohttp.ClientResponse, path: str) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _LONGEST_ANSWER_BYTES:
            raise UnreachableError(f"GET {path}: the answer is longer than {_LONGEST_ANSWER_BYTES} bytes")
    return bytes(body)


def _document(body: bytes | bytearray, path: str) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UnreachableError(f"GET {path}: the answer is not JSON") from error


def _message(body: bytes, reason: str | None) -> str:
    """Return the message of a refusal: a Kubernetes Status, or the text of a proxy."""
    try:
        message = text(json.loads(body), "message")
    except (ValueError, RecursionError):
        message = body[:300].decode(errors="replace").strip()
    return message or reason or "refused"
