"""Everything that happens to the jobs, pods and GPUNodes of one cell, from watches of our own that nothing disturbs.

A watch shows every version of every object, except changes that it misses while the API server is down. Resource versions order
the changes of all kinds, so the history contains every state that the cluster was in. Tests wait for states of the history, the
simulated nodes follow it, and the invariants are checked against it at the end (:mod:`tests.faults.invariants`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
from laneway.operator.state.resources import GPU_NODES, PODS, TRAINING_JOBS, Resource

from tests.support.api_faults.upstream import Upstream
from tests.support.operator.played_cluster import PLAYED_IN_LABEL

Raw = dict[str, Any]
Seen = TypeVar("Seen")

_DEADLINE_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one object."""

    version: int
    kind: str
    deleted: bool
    object: Raw

    @property
    def name(self) -> str:
        """The object's name."""
        name: str = self.object["metadata"]["name"]
        return name


class History:
    """All changes so far, and the current objects."""

    def __init__(self, up: Upstream, namespace: str) -> None:
        self._up = up
        self._namespace = namespace
        self._changes: list[Change] = []
        self._live: dict[tuple[str, str], Raw] = {}
        self._changed = asyncio.Event()
        self._subscribers: list[asyncio.Queue[Change]] = []

    @property
    def changes(self) -> list[Change]:
        """All changes so far, in the order in which they were made."""
        return sorted(self._changes, key=lambda change: change.version)

    @property
    def version(self) -> int:
        """The newest version seen."""
        return max((change.version for change in self._changes), default=0)

    def job(self, name: str) -> Raw | None:
        """Return a job as it is now."""
        return self._live.get((TRAINING_JOBS.kind, name))

    @property
    def jobs(self) -> list[Raw]:
        """All jobs as they are now."""
        return self._of(TRAINING_JOBS)

    @property
    def pods(self) -> list[Raw]:
        """All pods as they are now."""
        return self._of(PODS)

    def node(self, name: str) -> Raw | None:
        """Return a GPUNode as it is now."""
        return self._live.get((GPU_NODES.kind, name))

    @property
    def nodes(self) -> list[Raw]:
        """All GPUNodes as they are now."""
        return self._of(GPU_NODES)

    def subscribe(self) -> asyncio.Queue[Change]:
        """Return a queue into which every change will be put."""
        queue: asyncio.Queue[Change] = asyncio.Queue()
        self._subscribers.append(queue)
        return queue

    async def until(
        self, what: str, look: Callable[[], Seen | None], seconds: float = _DEADLINE_SECONDS
    ) -> Seen:
        """Return the first thing that ``look`` returns and that is not None or False."""
        async with asyncio.timeout(seconds) as limit:
            with suppress(asyncio.CancelledError):
                while True:
                    changed = self._changed
                    seen = look()
                    if seen is not None and seen is not False:
                        return seen
                    await changed.wait()
        if limit.expired():
            raise AssertionError(f"not within {seconds} s: {what}")
        raise asyncio.CancelledError

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[None]:
        """Watch while the context lasts; before it is entered no job may have been there."""
        tasks = [
            asyncio.create_task(self._follow(resource, self._compare(resource, await self._list(resource))))
            for resource in (GPU_NODES, TRAINING_JOBS, PODS)
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, resource: Resource) -> list[Raw]:
        return [each for (kind, _), each in self._live.items() if kind == resource.kind]

    def _url(self, resource: Resource) -> str:
        return self._up.url + resource.path(None if resource is GPU_NODES else self._namespace)

    def _own(self, resource: Resource) -> dict[str, str]:
        return {"labelSelector": f"{PLAYED_IN_LABEL}={self._namespace}"} if resource is GPU_NODES else {}

    async def _list(self, resource: Resource) -> Raw:
        while True:
            async with self._up.session.get(self._url(resource), params=self._own(resource)) as answer:
                if answer.status != 429:  # the API server initialises the storage of this kind
                    answer.raise_for_status()
                    listed: Raw = await answer.json()
                    return listed
            await asyncio.sleep(0.1)

    async def _follow(self, resource: Resource, version: str) -> None:
        while True:
            query = {"watch": "true", "resourceVersion": version, **self._own(resource)}
            with suppress(aiohttp.ClientError):
                async with self._up.session.get(self._url(resource), params=query) as answer:
                    while answer.status == 200 and (line := await answer.content.readline()).endswith(b"\n"):
                        event = json.loads(line)
                        if event["type"] == "ERROR":
                            break
                        version = event["object"]["metadata"]["resourceVersion"]
                        deleted = event["type"] == "DELETED"
                        self._note(Change(int(version), resource.kind, deleted, event["object"]))
                # An API server that has just started shows what was before only in lists.
                version = self._compare(resource, await self._list(resource))
            await asyncio.sleep(0.1)  # the API server is away, or the watch had its time

    def _compare(self, resource: Resource, listed: Raw) -> str:
        """Records the objects of a new list; returns its version."""
        version: str = listed["metadata"]["resourceVersion"]
        known = {each["metadata"]["name"]: each for each in self._of(resource)}
        shown = {each["metadata"]["name"]: each for each in listed["items"]}
        for name, each in known.items():
            if name not in shown or shown[name]["metadata"]["uid"] != each["metadata"]["uid"]:
                self._note(Change(int(version), resource.kind, True, each))
        for name, each in shown.items():
            own = each["metadata"]["resourceVersion"]
            if name not in known or known[name]["metadata"]["resourceVersion"] != own:
                self._note(Change(int(own), resource.kind, False, each))
        return version

    def _note(self, change: Change) -> None:
        self._changes.append(change)
        key = change.kind, change.name
        if change.deleted:
            self._live.pop(key, None)
        else:
            self._live[key] = change.object
        for queue in self._subscribers:
            queue.put_nowait(change)
        self._changed.set()
        self._changed = asyncio.Event()
