"""Reads from the past: lists, objects and watches show the cluster as it was at an old resource version, until they catch up.

Lists come from the real API server, which is asked for exactly that version. A single object is looked up in such a list. A
watch shows what happened up to that version, and the rest when the past ends. What the operator writes goes to the present.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace

from laneway.operator.state.resources import PODS

from tests.support.api_faults.fault import Answer, Fault, Request, refusal

_COLLECTIONS = frozenset({"pods", "trainingjobs", "trainingprofiles", "gpunodes", "nodes", "priorityclasses"})


class StaleReads(Fault):
    """While it is frozen, all reads of the frozen kinds return one version."""

    def __init__(self) -> None:
        self._frozen_at: int | None = None
        self._frozen = _COLLECTIONS
        self.pods_listed: Counter[str] = Counter()
        """How often each life has listed the pods."""
        self._thawed = asyncio.Event()
        self._thawed.set()

    def freeze(self, version: int, collections: frozenset[str] = _COLLECTIONS) -> None:
        """From now on show this version of these kinds; a watch shows it from its next event on."""
        self._frozen_at = version
        self._frozen = collections
        self.fired = True
        self._thawed.clear()

    def thaw(self) -> None:
        """Catch up with the present."""
        self._frozen_at = None
        self._thawed.set()

    async def before(self, request: Request) -> Request | Answer:
        """Ask for the past."""
        if request.collection == PODS.plural and not request.watches:
            self.pods_listed[request.writer] += 1
        if self._frozen_at is None or request.method != "GET" or request.watches or request.of_lease:
            return request
        past = {"resourceVersion": str(self._frozen_at), "resourceVersionMatch": "Exact"}
        if request.collection in self._frozen:
            return (
                request if "continue" in request.query else replace(request, query={**request.query, **past})
            )
        path, _, name = request.path.rpartition("/")
        if path.rsplit("/", 1)[-1] not in self._frozen:
            return request
        return replace(request, path=path, query={**past, "fieldSelector": f"metadata.name={name}"})

    async def after(self, request: Request, answer: Answer) -> Answer:
        """Pick the one object that was asked for out of the list."""
        shown = json.loads(answer.body) if answer.status == 200 and request.method == "GET" else {}
        if request.collection in _COLLECTIONS or "items" not in shown:
            return answer
        if not shown["items"]:
            return refusal(404, "NotFound", f"{request.path} is not there yet")
        item = {
            "apiVersion": shown["apiVersion"],
            "kind": shown["kind"].removesuffix("List"),
            **shown["items"][0],
        }
        return Answer(200, json.dumps(item).encode())

    async def events(self, request: Request, lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Hold back objects newer than the frozen version."""
        async for line in lines:
            if self._frozen_at is not None and request.collection in self._frozen:
                version = json.loads(line)["object"]["metadata"].get("resourceVersion", "0")
                if int(version) > self._frozen_at:
                    await self._thawed.wait()
            yield line
