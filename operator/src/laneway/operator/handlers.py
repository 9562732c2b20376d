"""kopf's part: watch what changes now and then, put it into the cache, wake the engine. Nothing is decided here. What changes all the time
is left to :mod:`laneway.operator.streams`.

kopf takes signals and the tasks of its event loop to be its own, so it gets a thread with a loop to itself; what it sees is
handed over to the operator's loop, on which alone the cache is touched.

Only ``on.event`` handlers are used: they need no finalizer, no annotation and no write of kopf's. The cache itself is the
index: it orders versions and takes in lists and answers to writes as well, which kopf's own indices do not.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import kopf
from laneway.operator.apiserver import ApiServer
from laneway.operator.cache import ClusterCache, Store
from laneway.operator.resources import STREAMED, WATCHED

logger = logging.getLogger(__name__)

_WORKERS = 200
"""Objects that kopf handles at the same time; a handler here never waits, so more would only cost memory."""

_RETRY_SECONDS = (1, 1, 2, 3, *[5] * 100_000)
"""After an outage of the API server the watches are back within seconds, and they never give up: a watch that fails for good
would end the operator, which could do no more than start again."""


async def watch(cache: ClusterCache, api: ApiServer, wake: Callable[[], None]) -> None:
    """Watch until cancelled.

    Raises:
        Exception: kopf's own, when a watch fails for good.
    """
    loop = asyncio.get_running_loop()
    stop = threading.Event()
    registry = build_registry(cache, api, wake, loop.call_soon_threadsafe)
    run = functools.partial(
        kopf.run,
        registry=registry,
        settings=build_settings(),
        standalone=True,
        clusterwide=True,
        stop_flag=stop,
    )
    thread = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        await asyncio.shield(thread)
    finally:
        stop.set()
        await thread


def build_registry(
    cache: ClusterCache, api: ApiServer, wake: Callable[[], None], hand_over: Callable[..., object]
) -> kopf.OperatorRegistry:
    """Return the handlers of all that is watched; ``hand_over`` calls a function on the cache's own loop."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        credentials = await api.credentials()
        scheme, token = _scheme_and_token(credentials.authorization)
        return kopf.ConnectionInfo(
            server=credentials.server,
            ca_path=credentials.ca_path,
            insecure=not credentials.verify,
            scheme=scheme,
            token=token,
            certificate_path=credentials.certificate_path,
            private_key_path=credentials.private_key_path,
        )

    for resource in WATCHED:
        if resource in STREAMED:
            continue
        handle = _handler(cache.store(resource), wake, hand_over)
        kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)(handle)
    return registry


def build_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: it watches, and does nothing else."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = (
        True  # the CRDs are waited for at start; no right to list CRDs and namespaces is needed
    )
    settings.queueing.worker_limit = _WORKERS
    settings.queueing.idle_timeout = 1.0
    settings.queueing.exit_timeout = 0.5
    settings.watching.server_timeout = 300
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = _RETRY_SECONDS
    return settings


def _handler(
    store: Store[Any], wake: Callable[[], None], hand_over: Callable[..., object]
) -> Callable[..., Any]:
    def take_in(kind: str | None, raw: Mapping[str, Any]) -> None:
        if store.forget(raw["metadata"]) if kind == "DELETED" else store.observe(raw):
            wake()

    async def note(event: Mapping[str, Any], **_: Any) -> None:
        hand_over(take_in, event["type"], event["object"])

    return note


def _scheme_and_token(authorization: str | None) -> tuple[str | None, str | None]:
    if authorization is None:
        return None, None
    scheme, token = authorization.split(" ", 1)
    return scheme.capitalize(), token
