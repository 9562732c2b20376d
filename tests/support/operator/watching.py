"""Follows what happens to objects: a history of rival gangs takes every change of their jobs and pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from laneway.operator.state.resources import PODS, TRAINING_JOBS
from laneway.operator.watch.apiserver import ApiServer, Raw

from tests.support.operator.rival_history import History


@asynccontextmanager
async def watched(
    api: ApiServer, namespace: str, history: History, changed: asyncio.Event | None = None
) -> AsyncIterator[None]:
    """While the block runs, have the history take every event of the namespace's jobs and pods; set ``changed`` at each."""

    async def watch(path: str, kind: str) -> None:
        version = (await api.request("GET", path))["metadata"]["resourceVersion"]
        started[path].set()

        def take(event: str, raw: Raw) -> None:
            history.take(event, {"kind": kind, **raw})
            if changed is not None:
                changed.set()

        await follow(api, path, version, take)

    kinds = {TRAINING_JOBS.path(namespace): TRAINING_JOBS.kind, PODS.path(namespace): PODS.kind}
    started = {path: asyncio.Event() for path in kinds}
    async with beside(*(partial(watch, path, kind) for path, kind in kinds.items())):
        for each in started.values():
            await each.wait()
        yield


async def follow(api: ApiServer, path: str, version: str, take: Callable[[str, Raw], None]) -> None:
    """Hand over every event of the objects at a path after a version, until cancelled: its type and its object."""
    while True:  # a watch may end at any time, and continues from its last version
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        async for event in api.watch(path, query):
            assert event["type"] != "ERROR", event["object"]
            version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                take(event["type"], event["object"])


@asynccontextmanager
async def beside(*works: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run these coroutines while the block runs; an error in one of them ends the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work()) for work in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
