"""Reads the cluster's API in this process. Polling every second with kubectl would cost a process each time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kubernetes import client, config
from urllib3.exceptions import HTTPError

from hack.cluster.progress import ClusterError

_TIMES = (15.0, 65.0)
"""To connect and to read, in seconds. An API server ends a request itself after 60 s, and says so."""


class Api:
    """GET on paths of the API server, with a kubeconfig's credentials."""

    def __init__(self, kubeconfig: Path) -> None:
        chosen = client.Configuration()
        config.load_kube_config(config_file=str(kubeconfig), client_configuration=chosen)
        chosen.retries = False
        chosen.connection_pool_maxsize = 64
        self._client = client.ApiClient(chosen)
        self.server: str = chosen.host

    def get(self, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the document at a path.

        Raises:
            ClusterError: the answer is not a document; its text names the path and the answer.
        """
        with _failures(path):
            response = self._request(path, query or {}, _TIMES)
            text = response.response.data
        if response.status != 200:
            raise ClusterError(f"GET {path}: HTTP {response.status}: {text[:300].decode(errors='replace')}")
        try:
            return json.loads(text)
        except ValueError as error:
            raise ClusterError(f"GET {path}: the answer is not JSON: {text[:300]!r}") from error

    def items(self, path: str, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Return the items of the list at a path."""
        listed: list[dict[str, Any]] = self.get(path, query)["items"]
        return listed

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """Yield the lines of a streamed response, for example a followed log, until the server ends it.

        Raises:
            ClusterError: the server does not answer, refuses, or breaks off.
        """
        with _failures(path):
            response = self._request(path, query, (_TIMES[0], None))
            if response.status != 200:
                raise ClusterError(f"GET {path}: HTTP {response.status}")
            rest = b""
            for chunk in response.response.stream(amt=None):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line.decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def _request(self, path: str, query: Mapping[str, str], times: tuple[float, float | None]) -> Any:
        method, url, headers, *_ = self._client.param_serialize(
            "GET", path, query_params=list(query.items()), auth_settings=["BearerToken"]
        )
        return self._client.call_api(method, url, header_params=headers, _request_timeout=times)


@contextmanager
def _failures(path: str) -> Iterator[None]:
    """Turn each way in which a request fails into a ClusterError that names the path."""
    try:
        yield
    except client.ApiException as error:
        raise ClusterError(f"GET {path}: {error.reason}") from error
    except (OSError, HTTPError) as error:
        raise ClusterError(f"GET {path}: {error}") from error
