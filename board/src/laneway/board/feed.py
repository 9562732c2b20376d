"""Watches the cluster for one viewer, and keeps what the viewer's page has not been sent yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

from laneway.board.api_server import (
    APIServer,
    Change,
    Changed,
    Credential,
    Listed,
    Lost,
    RefusedError,
    Regained,
    UnreachableError,
    View,
)
from laneway.board.views.job_view import job_view
from laneway.board.views.node_view import node_view

JOBS, NODES = "jobs", "nodes"
LIVE, UNAUTHENTICATED = "live", "unauthenticated"

_COALESCE_SECONDS = 0.25
"""Changes within this time are sent together; the page is drawn again at most so often."""

_LIVE = {"state": LIVE, "message": ""}
_STATES = {
    int(HTTPStatus.UNAUTHORIZED): UNAUTHENTICATED,
    int(HTTPStatus.FORBIDDEN): "forbidden",
    int(HTTPStatus.NOT_FOUND): "missing",
}
AUTHENTICATED = frozenset({LIVE, "forbidden", "missing"})
"""The states of a source whose API server knows the viewer: it looks at the credential first."""


def failure(error: RefusedError | UnreachableError) -> dict[str, str]:
    """Return the state of a source that failed: unauthenticated, forbidden, missing, failed or unreachable; and why."""
    if isinstance(error, UnreachableError):
        return {"state": "unreachable", "message": str(error)}
    return {"state": _STATES.get(error.status, "failed"), "message": str(error)}


class Pending:
    """The changes of one source that were not sent yet: at most one view an object, however slow the viewer is."""

    def __init__(self) -> None:
        self._state: dict[str, str] | None = None
        self._reset = False
        self._set: dict[str, View] = {}
        self._removed: set[str] = set()

    def add(self, change: Change) -> None:
        """Add a change. It replaces the earlier ones of the same object, or of the source's state."""
        if isinstance(change, Lost):
            self._state = failure(change.error)
        elif isinstance(change, Regained):
            self._state = _LIVE
        elif isinstance(change, Listed):
            self._state = _LIVE
            self._reset, self._removed = True, set()
            self._set = {view.key: view for view in change.views}
        elif isinstance(change, Changed):
            self._set[change.view.key] = change.view
            self._removed.discard(change.view.key)
        else:
            self._set.pop(change.view.key, None)
            self._removed.add(change.view.key)

    def message(self) -> dict[str, Any] | None:
        """Return the changes as the page expects them, except that ``set`` holds each view as JSON; None if there are none."""
        if not (self._state or self._reset or self._set or self._removed):
            return None
        return {
            "source": self._state,
            "reset": self._reset,
            "set": list(self._set.values()),
            "removed": sorted(self._removed),
        }


class Feed:
    """The TrainingJobs and GPUNodes that a viewer may read. A source that fails is tried again; the other one goes on."""

    def __init__(self, api: APIServer, credential: Credential, namespace: str) -> None:
        self._follow: dict[str, Callable[[], AsyncIterator[Change]]] = {
            JOBS: lambda: api.follow_jobs(namespace, credential, lambda job: _encoded(job_view(job))),
            NODES: lambda: api.follow_nodes(credential, lambda node: _encoded(node_view(node))),
        }
        self._pending = {name: Pending() for name in self._follow}
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._watch(name), name=f"feed-{name}") for name in self._follow]
        for task in self._tasks:
            task.add_done_callback(lambda _: self._changed.set())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def next(self, timeout_seconds: float) -> dict[str, dict[str, Any]]:
        """Wait for changes; return them by source. Empty after the time given."""
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_seconds)
        except TimeoutError:
            return {}
        for task in self._tasks:
            if task.done():
                task.result()  # a source never ends by itself: raises what went wrong in it
        await asyncio.sleep(_COALESCE_SECONDS)
        self._changed.clear()
        messages = {name: pending.message() for name, pending in self._pending.items()}
        self._pending = {name: Pending() for name in self._follow}
        return {name: message for name, message in messages.items() if message is not None}

    async def _watch(self, name: str) -> None:
        async for change in self._follow[name]():
            self._pending[name].add(change)
            self._changed.set()
            del change  # it may be a list of all objects, and the next one may be hours away


def _encoded(view: dict[str, Any]) -> View:
    return View(view["key"], json.dumps(view, allow_nan=False, separators=(",", ":")).encode())
