"""Reads the node's pods from a real API server. The only file of the plugin that talks to it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from kubernetes.aio import client, config
from laneway.device_plugin.node_pods import ApiAwayError, WatchExpiredError, split_lines

_CONNECT_SECONDS = 5.0
_LIST_SECONDS = 20.0
_TROUBLE = (client.ApiException, aiohttp.ClientError, TimeoutError, OSError, ValueError)


async def configuration(kubeconfig: str | None) -> client.Configuration | None:
    """Return how to reach the API server: from the named file, else as a pod; None when neither is there.

    Raises:
        ApiAwayError: the file or the pod's service account cannot be used.
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
        raise ApiAwayError(f"no way to the API server: {kubeconfig or 'service account'}: {error}") from error
    chosen.retries = False
    return chosen


class ApiPods:
    """Pods whose node is this one (`node_pods.PodSource`)."""

    def __init__(self, node: str, how: client.Configuration) -> None:
        self._selector = f"spec.nodeName={node}"
        self._client = client.ApiClient(how)
        self._core = client.CoreV1Api(self._client)

    async def close(self) -> None:
        """End the connections."""
        await self._client.close()

    async def list_pods(self) -> tuple[list[dict[str, Any]], str]:
        """Return the node's pods and the version of the list."""
        async with _explained("listing the node's pods"), asyncio.timeout(_LIST_SECONDS):
            answer = await self._core.list_pod_for_all_namespaces_without_preload_content(
                field_selector=self._selector, _request_timeout=_LIST_SECONDS
            )
            listed = json.loads(await _body(answer))
            return listed["items"], listed["metadata"]["resourceVersion"]

    async def watch_pods(self, version: str, seconds: int) -> AsyncIterator[dict[str, Any]]:
        """Yield watch events after a version, for so long."""
        async with _explained("watching the node's pods"):
            answer = await self._core.list_pod_for_all_namespaces_without_preload_content(
                field_selector=self._selector,
                watch=True,
                resource_version=version,
                allow_watch_bookmarks=True,
                timeout_seconds=seconds,
                _request_timeout=(_CONNECT_SECONDS, float(seconds + 30)),
            )
            response = _response(answer)
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
        """Return a pod, None when there is none."""
        async with _explained(f"reading pod {namespace}/{name}"), asyncio.timeout(timeout_seconds):
            answer = await self._core.read_namespaced_pod_without_preload_content(
                name, namespace, _request_timeout=timeout_seconds
            )
            if _response(answer).status == 404:
                return None
            pod: dict[str, Any] = json.loads(await _body(answer))
            return pod


@asynccontextmanager
async def _explained(what: str) -> AsyncIterator[None]:
    try:
        yield
    except _TROUBLE as error:
        raise ApiAwayError(f"{what} failed: {error or type(error).__name__}") from error


def _response(answer: Any) -> aiohttp.ClientResponse:
    response: aiohttp.ClientResponse = getattr(answer, "response", answer)
    return response


async def _check(response: aiohttp.ClientResponse) -> None:
    if response.status != 200:
        text = (await response.read()).decode(errors="replace")[:500]
        raise ValueError(f"HTTP {response.status}: {text}")


async def _body(answer: Any) -> bytes:
    response = _response(answer)
    await _check(response)
    return await response.read()
