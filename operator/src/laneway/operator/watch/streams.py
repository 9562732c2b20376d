"""Raw watches of the objects that change all the time: workers, and what nodes' agents report.

Thousands of pods start within a minute, and a thousand agents write every ten seconds. kopf's work for each event (a queue, a
worker, causes) costs several times as much as reading the object, so these streams are raw: list, then follow from the
version of the list, line by line, into the cache. A watch that ends continues from its last version; one whose version is too
old begins with a list again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from laneway.operator.pacing import WATCH_RETRY_SECONDS, WATCH_SERVER_SECONDS
from laneway.operator.state.cache import ClusterCache, Store
from laneway.operator.state.resources import STREAMED, Resource
from laneway.operator.watch.apiserver import ApiError, ApiServer, UnknownOutcome
from laneway.operator.watch.relist import LABEL_SELECTORS, list_kind

logger = logging.getLogger(__name__)

_GONE = 410
"""The version from which a watch should continue is too old."""


Heard = Callable[[Resource, str], None]
"""Called after a change that may affect a decision, with the kind of object and its uid; the uid is empty after a list."""


async def stream(
    cache: ClusterCache, api: ApiServer, heard: Heard, streamed: Collection[Resource] = STREAMED
) -> None:
    """Watch these kinds until cancelled."""
    async with asyncio.TaskGroup() as group:
        for resource in streamed:
            for namespace in api.scopes(resource):
                follower = _Follower(api, cache.store(resource), resource, namespace, heard)
                group.create_task(follower.run(), name=f"watch of {resource.plural} in {namespace or 'all'}")


class _Follower:
    """Follows one kind of objects, in one namespace or (None) in all."""

    def __init__(
        self, api: ApiServer, store: Store[Any], resource: Resource, namespace: str | None, heard: Heard
    ) -> None:
        self._api = api
        self._store = store
        self._resource = resource
        self._namespace = namespace
        self._heard = heard
        self._version = 0
        """The newest version seen; 0: everything must be listed."""

        self._failures = 0

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                if not self._version:
                    self._version = await list_kind(self._api, self._store, self._resource, self._namespace)
                    self._heard(self._resource, "")
                await self._follow()
            except (ApiError, UnknownOutcome) as error:
                if isinstance(error, ApiError) and error.status == _GONE:
                    self._version = 0
                pause_seconds = WATCH_RETRY_SECONDS[min(self._failures, len(WATCH_RETRY_SECONDS) - 1)]
                self._failures += 1
                extra = {"resource": self._resource.plural, "problem": str(error)}
                logger.info("a watch was interrupted", extra=extra)
                await asyncio.sleep(pause_seconds)

    async def _follow(self) -> None:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._version),
            "timeoutSeconds": str(WATCH_SERVER_SECONDS),
        }
        if self._resource in LABEL_SELECTORS:
            query["labelSelector"] = LABEL_SELECTORS[self._resource]
        async for event in self._api.watch(self._resource.path(self._namespace), query):
            self._take(event["type"], event["object"])
            self._failures = 0

    def _take(self, kind: str, raw: Mapping[str, Any]) -> None:
        if kind == "ERROR":
            raise ApiError(raw.get("code") or 500, raw.get("reason") or "", raw.get("message") or "")
        self._version = max(self._version, int(raw["metadata"]["resourceVersion"]))
        if kind == "BOOKMARK":
            return
        if self._store.forget(raw["metadata"]) if kind == "DELETED" else self._store.observe(raw):
            self._heard(self._resource, raw["metadata"]["uid"])
