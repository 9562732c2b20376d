"""Raw JSON to and from the API server.

``kubernetes.aio`` brings the connection pool, TLS and credentials (kubeconfig or service account, tokens renewed); its models
are not used, because deserialising into them costs more than the cycle itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException
from laneway.operator.state.resources import Resource

Raw = dict[str, Any]
"""An object as the API server has it."""

APPLY_PATCH = "application/apply-patch+yaml"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

NO_ANSWER = "<error>"
"""Stands for the status code of a request without an answer, as in client-go's metrics."""

_CONNECT_SECONDS = 10.0
_SILENCE_SECONDS = 150.0
"""The API server sends a bookmark about once a minute on each watch: a connection without any is dead."""

_KEPT_SECONDS = 75.0
"""How long an idle connection is kept, because a TLS handshake costs more than a request; the API server keeps it for 90
s."""


class ApiError(Exception):
    """The API server refused a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        """The machine-readable reason of the Status object, such as ``AlreadyExists``."""
        self.message = message


class UnknownOutcome(Exception):  # noqa: N818 - it is unknown whether there was an error
    """No answer came, so it is unknown whether the request was carried out."""


class CredentialsError(Exception):
    """No API server can be reached from here."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What kopf needs to open its own connections to the same server."""

    server: str
    ca_path: str | None
    verify: bool
    authorization: str | None
    """The value of the Authorization header, scheme included."""
    certificate_path: str | None
    private_key_path: str | None


class ApiServer:
    """A connection pool to one API server."""

    def __init__(self, configuration: Configuration, namespaces: Sequence[str] = ()) -> None:
        """Connect as ``configuration`` says, to work in these namespaces; empty: in all. Needs a running event loop."""
        self._configuration = configuration
        self.namespaces = tuple(dict.fromkeys(namespaces))
        self.answered: Callable[[str, str], object] = lambda method, code: None
        """Called for each request with its method, ``WATCH`` for a watch, and the status code, else :data:`NO_ANSWER`."""

        self._client = ApiClient(configuration)
        self._connector = aiohttp.TCPConnector(
            limit=configuration.connection_pool_maxsize,
            ssl=self._client.rest_client.ssl_context,
            keepalive_timeout=_KEPT_SECONDS,
        )
        # With trust_env, aiohttp would look for a .netrc and for proxies at each request, in threads of their own.
        configuration.client_session_kwargs = {
            "connector": self._connector,
            "cookie_jar": aiohttp.DummyCookieJar(),
            "trust_env": False,
        }

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.close()
        await self._connector.close()

    def scopes(self, resource: Resource) -> tuple[str | None, ...]:
        """Return the namespaces in which objects of a kind are listed and watched, one by one; None: all of the cluster at once."""
        return self.namespaces if resource.namespaced and self.namespaces else (None,)

    async def credentials(self) -> Credentials:
        """Return the current credentials; a token that is about to expire is read again."""
        configuration = self._configuration
        return Credentials(
            server=configuration.host,
            ca_path=configuration.ssl_ca_cert,
            verify=configuration.verify_ssl,
            authorization=await configuration.get_api_key_with_prefix("BearerToken", alias="authorization"),
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Raw | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout_seconds: float = 30.0,
    ) -> Raw:
        """Send one request and return the JSON of the answer.

        Raises:
            ApiError: the server answered with a status of 400 or more.
            UnknownOutcome: no answer came within the time.
        """
        url = self._configuration.host + path + (f"?{urlencode(query)}" if query else "")
        headers = await self._headers(accept, content_type)
        timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        try:
            response = await self._client.rest_client.request(
                method, url, headers=headers, body=body, _request_timeout=timeout
            )
            data = await response.read()
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            self.answered(method, NO_ANSWER)
            raise UnknownOutcome(f"{method} {path}: {type(error).__name__}: {error}") from error
        self.answered(method, str(response.status))
        answer = _parse(data, response.status)
        if response.status >= 400:
            raise ApiError(response.status, str(answer.get("reason") or ""), str(answer.get("message") or ""))
        return answer

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[Raw]:
        """Yield the events of a watch until the server ends it.

        Raises:
            ApiError: the server answered with a status of 400 or more.
            UnknownOutcome: the connection broke, or nothing came for long, not even a bookmark.
        """
        url = f"{self._configuration.host}{path}?{urlencode(query)}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENCE_SECONDS)
        answered = False
        try:
            response = await self._client.rest_client.request(
                "GET", url, headers=await self._headers("application/json"), _request_timeout=timeout
            )
            answered = True
            self.answered("WATCH", str(response.status))
            try:
                if response.status >= 400:
                    answer = _parse(await response.read(), response.status)
                    raise ApiError(
                        response.status, str(answer.get("reason") or ""), str(answer.get("message") or "")
                    )
                rest = b""
                async for part in response.response.content.iter_any():
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        yield json.loads(line)
            finally:
                response.response.close()
        except (TimeoutError, aiohttp.ClientError, OSError, ValueError) as error:
            if not answered:
                self.answered("WATCH", NO_ANSWER)
            raise UnknownOutcome(f"watch of {path}: {type(error).__name__}: {error}") from error

    async def _headers(self, accept: str, content_type: str = "application/json") -> dict[str, str]:
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": "laneway-operator"}
        authorization = await self._configuration.get_api_key_with_prefix(
            "BearerToken", alias="authorization"
        )
        if authorization:
            headers["Authorization"] = authorization
        return headers


def _parse(data: bytes, status: int) -> Raw:
    try:
        answer = json.loads(data) if data else {}
    except ValueError:
        # For example, a proxy in front of the API server answers in HTML.
        answer = {"reason": "", "message": data[:200].decode(errors="replace")}
        if status < 400:
            raise UnknownOutcome(f"status {status} with a body that is not JSON") from None
    return answer if isinstance(answer, dict) else {"message": str(answer)}


async def connect(kubeconfig: Path | None = None, namespaces: Sequence[str] = ()) -> ApiServer:
    """Return a connection by an explicit kubeconfig, else $KUBECONFIG, else the pod's service account.

    Args:
        kubeconfig: the explicit one.
        namespaces: in which to work; empty: in all.

    Raises:
        CredentialsError: none of them exists, or it is invalid.
    """
    configuration = Configuration()
    given = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG", "")
    try:
        if given:
            await load_kube_config(config_file=given, client_configuration=configuration)
        else:
            load_incluster_config(client_configuration=configuration)
    except (ConfigException, OSError) as error:
        where = f"the kubeconfig {given}" if given else "the pod's service account"
        raise CredentialsError(
            f"cannot reach an API server by {where}: {error}; pass --kubeconfig FILE, set KUBECONFIG, or run in a pod "
            "with a service account"
        ) from error
    if configuration.proxy is None:
        configuration.proxy = _proxy_of(configuration.host)
    return ApiServer(configuration, namespaces)


def _proxy_of(server: str) -> str | None:
    """Return the proxy that the environment names for a server (``HTTPS_PROXY``, ``NO_PROXY``), if any."""
    url = urlsplit(server)
    return None if proxy_bypass(url.netloc) else getproxies().get(url.scheme)
