"""Reads the node and its pods from the API server. No other module of the plugin does."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio import client, config
from laneway.device_plugin.node_pods import APIUnavailableError, WatchExpiredError, split_lines

_PODS = "/api/v1/pods"
_LIST_TIMEOUT = aiohttp.ClientTimeout(total=20)
_WATCH_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=100)
"""The API server sends a bookmark about once a minute, so longer silence means a dead connection."""
_API_ERRORS = (client.ApiException, aiohttp.ClientError, TimeoutError, OSError, ValueError)


async def configuration(kubeconfig: str | None) -> client.Configuration | None:
    """Return how to reach the API server: from the named file, else as a pod; None if neither is
    available.

    Raises:
        APIUnavailableError: the file or the pod's service account cannot be used.
    """
    chosen = client.Configuration()
    try:
        if kubeconfig:
            await config.load_kube_config(config_file=kubeconfig, client_configuration=chosen)
        elif os.environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(client_configuration=chosen)
        else:
            return None
    except (config.ConfigException, OSError) as error:
        raise APIUnavailableError(
            f"cannot reach the API server: {kubeconfig or 'service account'}: {error}"
        ) from error
    chosen.retries = False
    return chosen


class NodeAPI:
    """Reads this node (`advertisement.NodeSource`) and its pods (`node_pods.PodSource`)."""

    def __init__(self, node: str, client_configuration: client.Configuration) -> None:
        self._node = node
        self._on_this_node = f"spec.nodeName={node}"
        self._selector = ("fieldSelector", self._on_this_node)
        self._client = client.ApiClient(client_configuration)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def list_pods(self) -> tuple[list[dict[str, Any]], str]:
        """Return the node's pods and the version of the list."""
        async with _api_errors("listing the node's pods"):
            response = await self._get(_PODS, [self._selector], _LIST_TIMEOUT)
            listed = json.loads(await _body(response))
            return listed["items"], listed["metadata"]["resourceVersion"]

    async def watch_pods(self, version: str, seconds: int) -> AsyncIterator[dict[str, Any]]:
        """Yield watch events after a version, for this many seconds."""
        query = [
            self._selector,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(seconds)),
        ]
        async with _api_errors("watching the node's pods"):
            response = await self._get(_PODS, query, _WATCH_TIMEOUT)
            if response.status == 410:
                raise WatchExpiredError
            try:
                rest = b""
                await _check(response)
                async for chunk in response.content.iter_any():
                    events, rest = split_lines(rest, chunk)
                    for event in events:
                        yield event
            finally:
                response.close()

    async def read_pod(self, namespace: str, name: str, timeout_seconds: float) -> dict[str, Any] | None:
        """Return a pod of this node, None when there is none.

        It is a list, because a list names the node: an authorizer that reads selectors can hold the plugin to it.
        """
        async with _api_errors(f"reading pod {namespace}/{name}"):
            query = [("fieldSelector", f"metadata.name={name},{self._on_this_node}")]
            path = f"/api/v1/namespaces/{quote(namespace)}/pods"
            response = await self._get(path, query, aiohttp.ClientTimeout(total=timeout_seconds))
            pods: list[dict[str, Any]] = json.loads(await _body(response))["items"]
            return pods[0] if pods else None

    async def read_node(self, timeout_seconds: float) -> dict[str, Any]:
        """Return the Node."""
        async with _api_errors(f"reading node {self._node}"):
            timeout = aiohttp.ClientTimeout(total=timeout_seconds)
            response = await self._get(f"/api/v1/nodes/{quote(self._node)}", [], timeout)
            node: dict[str, Any] = json.loads(await _body(response))
            return node

    async def _get(
        self, path: str, query: list[tuple[str, str]], client_timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        # CoreV1Api's methods are not used: they have no read timeout, and validate types that are not needed.
        method, url, headers, *_ = await self._client.param_serialize(
            "GET", path, query_params=query, auth_settings=["BearerToken"]
        )
        answer = await self._client.call_api(
            method, url, header_params=headers, _request_timeout=client_timeout
        )
        response: aiohttp.ClientResponse = answer.response
        return response


@asynccontextmanager
async def _api_errors(what: str) -> AsyncIterator[None]:
    try:
        yield
    except _API_ERRORS as error:
        raise APIUnavailableError(f"{what} failed: {str(error) or type(error).__name__}") from error


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        text = (await response.read()).decode(errors="replace")[:500]
        raise ValueError(f"HTTP {response.status}: {text}")


async def _body(response: aiohttp.ClientResponse) -> bytes:
    await _check(response)
    return await response.read()
