"""The Kubernetes API server, with the rights of the viewer. The only module that talks to the cluster; it only reads."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import aiohttp
from laneway.api.names import GROUP, VERSION
from laneway.api.retries import RetryDelays, is_temporary
from laneway.board.views.fields import Object, items, number, part, text
from yarl import URL

Credential = Callable[[], Awaitable[str | None]]
"""Returns the header ``Authorization`` of a request; None where the TLS client certificate says who asks."""

_AGENT_PORT = 9464
_AGENT_SELECTOR = "app.kubernetes.io/part-of=laneway,app.kubernetes.io/component=node"
_PAGE_OBJECTS = 250
_WATCH_SECONDS = 240
_PAUSE_SECONDS = 0.5
"""Between two watches, should a proxy end each at once."""
_LONGEST_ANSWER_BYTES = 16 << 20
"""Of one answer; a single object has 1.5 MiB at most, because etcd takes no more."""
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


@dataclass(frozen=True, slots=True)
class View:
    """What the page shows of an object."""

    key: str
    """``namespace/name``, or the name of an object without a namespace."""

    json: bytes
    """A fourth of the memory that its fields would take."""


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


class RefusedError(Exception):
    """The API server refused a request; the message is the server's."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class UnreachableError(Exception):
    """The API server does not answer, or its answer is no answer of the Kubernetes API."""


class _TooLongError(UnreachableError):
    """An answer is longer than the board reads."""


@dataclass(frozen=True)
class Lost:
    """The objects cannot be read, or their changes; it is tried again."""

    error: RefusedError | UnreachableError


@dataclass(frozen=True)
class Regained:
    """Changes are seen again, and none was missed."""


Change = Listed | Changed | Removed | Lost | Regained


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

    def follow_jobs(
        self, namespace: str, credential: Credential, view: Callable[[Object], View]
    ) -> AsyncIterator[Change]:
        """Return the TrainingJobs of a namespace (empty: of all), then their changes, without end."""
        within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
        return self._follow(f"/apis/{GROUP}/{VERSION}{within}/trainingjobs", credential, view)

    def follow_nodes(self, credential: Credential, view: Callable[[Object], View]) -> AsyncIterator[Change]:
        """Return the GPUNodes, then their changes, as ``follow_jobs`` does."""
        return self._follow(f"/apis/{GROUP}/{VERSION}/gpunodes", credential, view)

    async def job_events(self, namespace: str, job: str, credential: Credential) -> list[Object]:
        """Return the events about a TrainingJob."""
        query = {"fieldSelector": f"involvedObject.kind=TrainingJob,involvedObject.name={job}"}
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events"
        return items(await self._get(path, query, credential), "items")

    async def agent_pod(
        self, namespaces: Sequence[str], node: str, credential: Credential
    ) -> tuple[str, str]:
        """Return the namespace and the name of the node agent's pod on a node.

        The namespaces (empty: all) are searched in their order. Those come first into which no tenant can put a pod with an agent's labels.

        Raises:
            RefusedError: there is none (404), or the viewer may list the pods of none of the namespaces (403).
        """
        query = {
            "labelSelector": _AGENT_SELECTOR,
            "fieldSelector": f"spec.nodeName={node},status.phase=Running",
        }
        refused: list[RefusedError] = []
        for namespace in namespaces:
            within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
            try:
                found = items(await self._get(f"/api/v1{within}/pods", query, credential), "items")
            except RefusedError as error:
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
                refused.append(error)
            else:
                for pod in found:
                    return text(pod, "metadata", "namespace"), text(pod, "metadata", "name")
        if len(refused) == len(namespaces):
            raise refused[0]
        where = ", ".join(namespace for namespace in namespaces if namespace)
        raise RefusedError(HTTPStatus.NOT_FOUND, f"no node agent runs on node {node} in namespace {where}")

    async def turns(
        self, namespace: str, pod: str, since_seconds: float, credential: Credential
    ) -> tuple[list[object], float | None]:
        """Return the turns that an agent knows and that ended after a time or still run, through the API server's pod proxy.

        The second value is when it answered by its own clock, in whole seconds since the epoch; None if the answer does not say so.
        """
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}:{_AGENT_PORT}/proxy/turns"
        try:
            query = {"since": f"{since_seconds:.6f}"}
            async with self._request(path, query, credential, _REQUEST) as response:
                found = _document(await _body(response, path), path)
                answered_seconds = _date_seconds(response)
        except RefusedError as error:
            if error.status != HTTPStatus.BAD_REQUEST:
                raise
            # The port speaks TLS, and the API server's proxy would not pass the viewer's token on.
            raise RefusedError(error.status, "not available with metrics.secure of the chart") from error
        return found if isinstance(found, list) else [], answered_seconds

    async def _follow(
        self, path: str, credential: Credential, view: Callable[[Object], View]
    ) -> AsyncIterator[Change]:
        """Yield the objects of a path, then their changes, without end.

        As in ``laneway.sdk``, a watch is opened again at the last change that was seen. Objects are listed again only where the API
        server no longer knows the changes since then (410), or refused a request.
        """
        delays, version, lost = RetryDelays(), "", False
        while True:
            pause_seconds = _PAUSE_SECONDS
            try:
                if not version:
                    listed, version = await self._list(path, credential, view)
                    yield listed
                    del listed  # all objects: they would be kept as long as the watch
                    lost = False
                async for event in self._watch(path, version, credential):
                    if lost:
                        yield Regained()
                        lost = False
                    version = text(event, "object", "metadata", "resourceVersion") or version
                    if (change := _change(event, view)) is not None:
                        yield change
            except (RefusedError, UnreachableError) as error:
                if not (isinstance(error, RefusedError) and error.status == HTTPStatus.GONE):
                    yield Lost(error)
                    lost, pause_seconds = True, delays.next_seconds()
                if isinstance(error, RefusedError) and not is_temporary(error.status):
                    version = ""
            await asyncio.sleep(pause_seconds)

    async def _list(
        self, path: str, credential: Credential, view: Callable[[Object], View]
    ) -> tuple[Listed, str]:
        views: list[View] = []
        query, limit = {"continue": ""}, _PAGE_OBJECTS
        while True:
            try:
                page = await self._get(path, query | {"limit": str(limit)}, credential)
            except _TooLongError:
                if limit == 1:
                    raise
                limit //= 2  # large objects of one tenant take the page from nobody
                continue
            views += [view(item) for item in items(page, "items")]
            query["continue"] = text(page, "metadata", "continue")
            if not query["continue"]:
                break
        version = text(page, "metadata", "resourceVersion")
        if not version:
            raise UnreachableError(f"GET {path}: the answer is no list of the Kubernetes API")
        return Listed(views), version

    async def _watch(self, path: str, version: str, credential: Credential) -> AsyncIterator[Object]:
        """Yield an empty event once the API server has answered, then its events until it ends the watch."""
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with self._request(path, query, credential, _STREAM) as response:
            yield {}
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
                        code = int(number(event, "object", "code") or HTTPStatus.INTERNAL_SERVER_ERROR)
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


def _date_seconds(response: aiohttp.ClientResponse) -> float | None:
    """Return the header ``Date`` in seconds since the epoch; the API server's proxy passes a pod's on."""
    try:
        return parsedate_to_datetime(response.headers.get("Date", "")).timestamp()
    except (ValueError, OverflowError):
        return None


async def _body(response: aiohttp.ClientResponse, path: str) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > _LONGEST_ANSWER_BYTES:
            raise _TooLongError(f"GET {path}: the answer is longer than {_LONGEST_ANSWER_BYTES} bytes")
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
