"""An API server whose answers a test chooses, for what a real one does rarely: redirects, expired watches, endless lines."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

JOBS = "/apis/laneway.dev/v1alpha1/trainingjobs"
NODES = "/apis/laneway.dev/v1alpha1/gpunodes"

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def job(name: str, version: int = 1) -> dict[str, Any]:
    metadata = {"namespace": "team-a", "name": name, "uid": name, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"gpus": {"type": "Count", "count": 1}}}


class PlayedAPI:
    """Answers each path with what was set for it, else 403; remembers the requests."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.answers: dict[str, Answer] = {}
        self.lists: dict[str, list[dict[str, Any]]] = {}
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.app = web.Application()
        self.app.router.add_route("*", "/{path:.*}", self._answer)

    @property
    def authorizations(self) -> set[str | None]:
        """The header of every request."""
        return {request.headers.get("Authorization") for request in self.requests}

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if request.path in self.answers:
            return await self.answers[request.path](request)
        if request.path not in self.lists:
            return web.json_response({"message": f"cannot list {request.path}"}, status=403)
        if request.query.get("watch"):
            return await self._watch(request)
        listed = {"metadata": {"resourceVersion": "1"}, "items": self.lists[request.path]}
        return web.json_response(listed)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            event = await self.events.get()
            if event["object"].get("code") == 0 and request.transport:
                request.transport.abort()  # a cut connection
            await response.write(json.dumps(event).encode() + b"\n")
            if event["type"] == "ERROR":
                return response
