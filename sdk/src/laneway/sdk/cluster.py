"""Requests to the API server of the user's choice. Only this module and ``kubeconfig`` use the Kubernetes client.

Objects are plain dictionaries, in the API server's own form. Paths are the API server's, too, so that one method serves each kind.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from laneway.api.names import GROUP, VERSION
from laneway.api.retries import is_temporary
from laneway.sdk.errors import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidJobError,
    LanewayError,
    NotFoundError,
    UnauthorizedError,
    UnreachableError,
    WrongArgumentError,
)
from laneway.sdk.kubeconfig import load_config
from laneway.sdk.outage import Outage

Object = dict[str, Any]

_CONNECT_SECONDS = 10
_ANSWER_SECONDS = 30
_PAGE_OBJECTS = 500
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_NO_NAMESPACE = re.compile(r'namespaces "([^"]+)" not found')
"""The API server's message where an object is to be created in a namespace that does not exist."""


def jobs_path(namespace: str | None, name: str | None = None) -> str:
    """Return the path of a TrainingJob, or of the TrainingJobs of a namespace or of all (None)."""
    return _path(f"/apis/{GROUP}/{VERSION}", namespace, "trainingjobs", name)


def pods_path(namespace: str, name: str | None = None) -> str:
    """Return the path of a pod, or of the pods of a namespace."""
    return _path("/api/v1", namespace, "pods", name)


def gpu_nodes_path(name: str | None = None) -> str:
    """Return the path of a GPUNode, or of all."""
    return _path(f"/apis/{GROUP}/{VERSION}", None, "gpunodes", name)


def events_path(namespace: str) -> str:
    """Return the path of the events of a namespace."""
    return _path("/api/v1", namespace, "events", None)


def _path(api: str, namespace: str | None, plural: str, name: str | None) -> str:
    place = "" if namespace is None else f"/namespaces/{checked_name(namespace)}"
    return f"{api}{place}/{plural}" + ("" if name is None else f"/{checked_name(name)}")


def checked_name(name: str) -> str:
    """Return a name that an object may have. Another one would change a path: an empty one names all objects.

    Raises:
        WrongArgumentError: no object has such a name.
    """
    if not _NAME.fullmatch(name):
        raise WrongArgumentError(
            f"{name!r} is no name of an object: write lower-case letters, digits, '-' and '.'"
        )
    return name


class ByteStream:
    """The body of a response, as it arrives. ``close`` may be called from another thread, and ends the iteration."""

    def __init__(self, cluster: Cluster, response: Any, what: str) -> None:
        self._cluster = cluster
        self._response = response
        self._what = what
        self._closed = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield what has arrived, in pieces of any size."""
        complete = False
        try:
            with self._cluster.errors(self._what):
                yield from self._response.stream(decode_content=False)
            complete = True
        except LanewayError:
            if not self._closed:
                raise
        finally:
            if complete:
                self._response.release_conn()
            else:
                self._response.close()  # the connection is in the middle of an answer

    def close(self) -> None:
        """End the stream: a read that waits returns."""
        self._closed = True
        with suppress(RuntimeError, ValueError):  # it has ended already
            self._response.shutdown()


class Cluster:
    """The API server, with the user's own rights."""

    def __init__(self, *, kubeconfig: str | None = None, context: str | None = None) -> None:
        """Choose a cluster as ``laneway.sdk.kubeconfig.load_config`` does.

        ``context`` is the kubeconfig's context, or None for the pod's service account; ``namespace`` is the namespace of either;
        ``server`` is the API server's address.

        Raises:
            UnreachableError: there is no kubeconfig, or it is wrong.
        """
        from kubernetes import client

        settings = client.Configuration()
        choice = load_config(settings, kubeconfig, context)
        self.context, self.namespace = choice.context, choice.namespace
        settings.retries = 1
        settings.keep_alive = True  # notices a dead connection, however long a log is silent
        self.outage = Outage()
        self.server = str(settings.host)
        self._api = client.ApiClient(settings)

    def get(self, path: str, *, what: str, **query: str | None) -> Object:
        """Return an object, or a list of them.

        Args:
            path: the API server's.
            what: what is asked for, as errors name it.
            query: parameters of the request; those that are None or empty are left out.

        Raises:
            LanewayError: one of its kinds, by what went wrong.
        """
        return self._json("GET", path, what, query)

    def items(self, path: str, *, what: str, **query: str | None) -> Iterator[Object]:
        """Yield the objects of a list, which is read in pages."""
        page: Object = {}
        while not page or page["metadata"].get("continue"):
            token = page["metadata"]["continue"] if page else None
            page = self.get(path, what=what, limit=str(_PAGE_OBJECTS), **{"continue": token}, **query)
            yield from page["items"]

    def create(self, path: str, body: Mapping[str, Any], *, what: str, **query: str | None) -> Object:
        """Create an object and return it as the API server stored it."""
        try:
            return self._json("POST", path, what, query, body)
        except ConflictError as error:
            raise AlreadyExistsError(
                f"{what} already exists: delete it first, or choose another name"
            ) from error

    def patch(
        self, path: str, body: Mapping[str, Any], *, what: str, kind: str = MERGE, **query: str | None
    ) -> Object:
        """Change an object by a patch of a kind, ``MERGE`` or ``APPLY``, and return it."""
        return self._json("PATCH", path, what, query, body, kind)

    def delete(self, path: str, *, what: str, **query: str | None) -> Object:
        """Delete an object; what it owns goes with it."""
        return self._json("DELETE", path, what, query)

    def stream(
        self, path: str, *, what: str, silent_seconds: float | None = None, **query: str | None
    ) -> ByteStream:
        """Return the body of a response as it arrives; it may be silent for so long (None: for ever)."""
        return ByteStream(self, self._send("GET", path, what, query, None, "", silent_seconds), what)

    def _json(
        self,
        method: str,
        path: str,
        what: str,
        query: Mapping[str, str | None],
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> Object:
        response = self._send(method, path, what, query, body, content_type, _ANSWER_SECONDS)
        with self.errors(what):
            data = response.data
        return self.parsed(data, "kind", "gitVersion")  # the latter is of /version, which alone has no kind

    def parsed(self, text: bytes, *fields: str) -> Object:
        """Return the object that an answer, or a line of it, holds. It has one of these fields at least.

        Raises:
            UnreachableError: it has none, or is no object: another server answers, such as a proxy at which the user is to sign in.
        """
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.keys().isdisjoint(fields):
            raise UnreachableError(self._unreachable("it answers, and is no API server"))
        return found

    def _send(
        self,
        method: str,
        path: str,
        what: str,
        query: Mapping[str, str | None],
        body: Mapping[str, Any] | None,
        content_type: str,
        answer_seconds: float | None,
    ) -> Any:
        """Send a request, and return urllib3's response after its headers have come."""
        headers = {"Accept": "application/json, */*"} | ({"Content-Type": content_type} if body else {})
        pairs = [(key, value) for key, value in query.items() if value]
        with self.errors(what):
            request = self._api.param_serialize(
                method, path, query_params=pairs, header_params=headers, auth_settings=["BearerToken"]
            )
            url, sent = request[1], request[2]
            answer = self._api.call_api(
                method,
                url,
                sent,
                dict(body) if body else None,
                _request_timeout=(_CONNECT_SECONDS, answer_seconds),
            )
            if not 200 <= answer.status < 300:
                raise refusal(answer.status, answer.read(), str(answer.reason), what)
            return answer.response

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Turn the client's exceptions into ours, while something is asked for."""
        from kubernetes.client import ApiException
        from urllib3.exceptions import HTTPError

        try:
            yield
        except ApiException as error:  # of TLS: a refusal of the API server does not raise it
            raise UnreachableError(self._unreachable(str(error.reason or error))) from error
        except (HTTPError, OSError) as error:
            raise UnreachableError(self._unreachable(_root_cause(error))) from error

    def _unreachable(self, why: str) -> str:
        return f"cannot reach the cluster at {self.server}: {' '.join(why.split())}"


def _root_cause(error: BaseException) -> str:
    """Return what stopped a connection, in a few words: ``Connection refused``, not a chain of classes."""
    from urllib3.exceptions import (
        ConnectTimeoutError,
        NameResolutionError,
        NewConnectionError,
        ReadTimeoutError,
    )

    if isinstance(error, NameResolutionError):
        return "its name is not known"
    if isinstance(error, ConnectTimeoutError) and not isinstance(error, NewConnectionError):
        return f"no answer within {_CONNECT_SECONDS} s"
    if isinstance(error, ReadTimeoutError):
        return "it stopped answering"
    inner = getattr(error, "reason", None) or error.__cause__ or error.__context__
    if isinstance(inner, BaseException):
        return _root_cause(inner)
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def refusal(status: int, body: bytes, reason: str, what: str) -> LanewayError:
    """Return the error for an answer of the API server, whose body is a Kubernetes Status or not."""
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = ""
    if status == 404 and not message and what.startswith(("TrainingJob", "GPUNode")):
        return NotFoundError(
            "the cluster has no TrainingJobs: install Laneway first, as docs/operate/README.md of its repository says"
        )
    if status == 404 and (missing := _NO_NAMESPACE.fullmatch(message)):
        return NotFoundError(f"namespace {missing[1]} does not exist: create it first, or name another one")
    if status == 401:
        return UnauthorizedError(
            "the cluster refused your credentials, which are wrong or expired: renew them, or check the user in your kubeconfig"
        )
    kinds: dict[int, tuple[type[LanewayError], str]] = {
        403: (ForbiddenError, f"not allowed: {message}"),
        404: (NotFoundError, f"{what} not found"),
        409: (ConflictError, f"{what}: {message}"),
        410: (ExpiredError, f"{what}: {message}"),
        400: (InvalidJobError, f"{what} is invalid: {message}"),
        422: (InvalidJobError, f"{what} is invalid: {message}"),
    }
    other = UnreachableError if is_temporary(status) else LanewayError
    kind, text = kinds.get(status, (other, f"{what}: {message or reason}"))
    return kind(text)
