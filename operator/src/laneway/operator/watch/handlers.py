"""kopf's part: it watches TrainingJobs, TrainingProfiles, nodes and priority classes, and hands each event over to the cache.
Nothing is decided here. Workers and GPUNodes change all the time; :mod:`laneway.operator.watch.streams` watches them.

kopf takes signals and the tasks of its event loop to be its own, so it gets a thread with a loop to itself. The cache is touched
on the operator's loop alone: events are handed over in batches, because waking that loop costs more than an event.

Only ``on.event`` handlers are used: they need no finalizer, no annotation and no write of kopf's. The cache is the index: unlike
kopf's own indices it orders versions, and takes in lists and answers to writes as well.

kopf lists again when a watch was interrupted, and does not say which objects are gone since. Then ``relisted`` is called, and the
engine, whose own list finds them, lists soon.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

import kopf
from laneway.operator.pacing import WATCH_RETRY_SECONDS
from laneway.operator.state.cache import ClusterCache
from laneway.operator.state.resources import STREAMED, WATCHED, Resource
from laneway.operator.watch.apiserver import ApiServer
from laneway.operator.watch.discovery import until_discovered
from laneway.operator.watch.streams import Heard

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 0.05
"""A worker of kopf's ends after this without a further event of its object. With kopf's default of 5 s, thousands of jobs that
change once keep thousands of idle workers, and a limit on workers holds up the jobs behind them. 0 would spin."""

_SERVER_SECONDS = 3600
"""The API server ends a watch after this. kopf then lists and handles all objects again, so a long time is better. It finds a
dead connection within 70 s by the bookmarks that are missing."""

_LASTED_SECONDS = 60.0
"""Watches that held for so long end for a new reason, and are started again without a longer pause."""

_WATCHING_TASK = "multidimensional multitasker"
"""The task of kopf's that holds its watches, and ends with the first of them."""

_LOOK_SECONDS = 0.1
_END_SECONDS = 10.0
"""kopf gives what hangs in it 5 s when it ends."""

_PAGE = 250
"""Objects per page of kopf's lists. A list of all objects would be the peak of the operator's memory."""


async def watch(
    cache: ClusterCache,
    api: ApiServer,
    heard: Heard,
    relisted: Callable[[], None],
    streamed: Collection[Resource] = STREAMED,
) -> None:
    """Watch until cancelled. kopf ends when a watch fails in a way that it does not expect; then it is started again.

    Args:
        cache: takes the objects.
        api: lends kopf its credentials.
        heard: see :data:`Heard`.
        relisted: is called when kopf lists objects, and after it was started again: some that are known may be gone.
        streamed: kinds that kopf does not watch.
    """
    hand_over = HandOver(asyncio.get_running_loop(), cache, heard, relisted)
    failures = 0
    while True:
        await until_discovered(api, [each for each in WATCHED if each not in streamed and each.group])
        began_seconds = time.monotonic()
        problem = await _run_kopf(build_registry(api, hand_over.put, streamed), api.namespaces)
        logger.warning("the watches ended and are started again", extra={"problem": problem})
        lasted = time.monotonic() - began_seconds > _LASTED_SECONDS
        failures = 1 if lasted else min(failures + 1, len(WATCH_RETRY_SECONDS))
        await asyncio.sleep(WATCH_RETRY_SECONDS[failures - 1])
        relisted()


async def _run_kopf(registry: kopf.OperatorRegistry, namespaces: Collection[str]) -> str:
    """Run kopf in a thread until one of its watches ends, or until cancelled; return why it ended.

    Args:
        registry: the handlers.
        namespaces: in which objects are watched that are in one; empty: in all.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()
    ended: asyncio.Future[str] = loop.create_future()

    def end(problem: str) -> None:
        if not ended.done():
            ended.set_result(problem)

    async def operator() -> None:
        running = asyncio.create_task(
            kopf.operator(
                registry=registry,
                settings=build_settings(),
                standalone=True,
                clusterwide=not namespaces,
                namespaces=namespaces,
                stop_flag=stop,
            )
        )
        watching = asyncio.create_task(_watching_task())
        await asyncio.wait([running, watching], return_when=asyncio.FIRST_COMPLETED)
        if watching.done():
            # kopf may hang while it ends: a watch of its that is to end waits for credentials that come no more.
            await asyncio.wait([running, watching.result()], return_when=asyncio.FIRST_COMPLETED)
        stop.set()  # a thread of kopf's waits for it, and the loop for that thread
        problem = _problem(watching.result() if watching.done() else running)
        with suppress(RuntimeError):  # the operator's loop may have ended before
            loop.call_soon_threadsafe(end, problem)
        watching.cancel()
        await asyncio.wait([running])

    def run() -> None:
        try:
            asyncio.run(operator())
        finally:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(end, "kopf ended")

    # No thread of the loop's own: a process cannot end before these have.
    thread = threading.Thread(target=run, name="kopf", daemon=True)
    thread.start()
    try:
        return await ended
    finally:
        stop.set()
        await asyncio.to_thread(thread.join, _END_SECONDS)
        if thread.is_alive():
            logger.warning("kopf has not ended within %.0f s and is left behind", _END_SECONDS)


async def _watching_task() -> asyncio.Task[Any]:
    """Return kopf's task that holds its watches, once it is there."""
    while True:
        for task in asyncio.all_tasks():
            if task.get_name() == _WATCHING_TASK:
                return task
        await asyncio.sleep(_LOOK_SECONDS)


def _problem(task: asyncio.Task[Any]) -> str:
    error = task.exception() if task.done() and not task.cancelled() else None
    return f"{type(error).__name__}: {error}" if error is not None else "kopf ended"


Put = Callable[[Resource, str | None, Mapping[str, Any]], None]
"""Takes the kind of an object, the event's type (None: from a list), and the object."""


class HandOver:
    """Events on their way from kopf's thread to the operator's loop, in order."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        cache: ClusterCache,
        heard: Heard,
        relisted: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._cache = cache
        self._heard = heard
        self._relisted = relisted
        self._events: deque[tuple[Resource, str | None, Mapping[str, Any]]] = deque()
        self._woken = False

    def put(self, resource: Resource, kind: str | None, raw: Mapping[str, Any]) -> None:
        """Hand an event over. Called in kopf's thread."""
        self._events.append((resource, kind, raw))
        if not self._woken:
            self._woken = True
            self._loop.call_soon_threadsafe(self._take)

    def _take(self) -> None:
        self._woken = False  # before the first event is taken: one that comes later wakes again
        listed = False
        while self._events:
            resource, kind, raw = self._events.popleft()
            listed |= kind is None
            store = self._cache.store(resource)
            if store.forget(raw["metadata"]) if kind == "DELETED" else store.observe(raw):
                self._heard(resource, raw["metadata"]["uid"])
        if listed:
            self._relisted()


def build_registry(
    api: ApiServer, put: Put, streamed: Collection[Resource] = STREAMED
) -> kopf.OperatorRegistry:
    """Return the handlers of all that kopf watches; ``put`` gets each event."""
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
        if resource not in streamed:
            on_event = kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)
            on_event(_handler(resource, put))
    return registry


def build_settings() -> kopf.OperatorSettings:
    """Return kopf's settings: it watches, and does nothing else."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = (
        True  # the CRDs are waited for at start; no right to list CRDs and namespaces is needed
    )
    settings.queueing.worker_limit = None  # a worker here never waits, and ends soon
    settings.queueing.idle_timeout = _IDLE_SECONDS
    settings.queueing.exit_timeout = 0.5
    settings.watching.server_timeout = _SERVER_SECONDS
    settings.watching.chunk_size = _PAGE
    settings.networking.request_timeout = 60
    settings.persistence.diffbase_storage = _NothingCompared([])
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
    # kopf gives up after the last of them, and so does the operator.
    settings.networking.error_backoffs = [*WATCH_RETRY_SECONDS, *[WATCH_RETRY_SECONDS[-1]] * 100_000]
    return settings


class _NothingCompared(kopf.MultiDiffBaseStorage):
    """kopf copies each object, to show handlers of changes what has changed. Handlers of events see the object itself, and
    the copies are more than half of kopf's work."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        """Return an essence that is always the same."""
        return kopf.BodyEssence()


def _handler(resource: Resource, put: Put) -> Callable[..., Any]:
    async def note(event: Mapping[str, Any], **_: Any) -> None:
        put(resource, event["type"], event["object"])

    return note


def _scheme_and_token(authorization: str | None) -> tuple[str | None, str | None]:
    if authorization is None:
        return None, None
    scheme, token = authorization.split(" ", 1)
    return scheme.capitalize(), token
