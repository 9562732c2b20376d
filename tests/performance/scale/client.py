"""What this benchmark itself asks of the API server, many requests at the same time."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import aiohttp
from laneway.operator.watch.apiserver import ApiError, ApiServer, Raw

PARALLEL = 32
"""Requests under way at the same time: as many as the operator's default."""

_TOO_MANY_REQUESTS = 429
"""The API server has to fill its cache of these objects first, say."""


async def for_each(steps: Iterable[Callable[[], Awaitable[object]]], parallel: int = PARALLEL) -> None:
    """Run all steps, a number of them at a time."""
    waiting = iter(steps)

    async def work() -> None:
        for step in waiting:
            await step()

    await asyncio.gather(*(work() for _ in range(parallel)))


async def delete_if_there(api: ApiServer, path: str, body: Raw | None = None) -> None:
    """Delete an object, or find it gone."""
    try:
        await api.request("DELETE", path, body=body)
    except ApiError as error:
        if error.status != 404:
            raise


@asynccontextmanager
async def watching(api: ApiServer, path: str, take: Callable[[str, Raw], None]) -> AsyncIterator[None]:
    """While the block runs, have ``take`` see the type and object of each event from now on.

    Raises:
        ExceptionGroup: the watch cannot go on, or ``take`` has failed.
    """
    credentials = await api.credentials()
    context = ssl.create_default_context(cafile=credentials.ca_path)
    assert credentials.certificate_path is not None
    context.load_cert_chain(credentials.certificate_path, credentials.private_key_path)
    started = asyncio.Event()

    async def watch(session: aiohttp.ClientSession) -> None:
        listed = await api.request("GET", path, query={"limit": "1"})
        version = listed["metadata"]["resourceVersion"]
        while True:  # a watch may end at any time, and continues from its last version
            url = f"{credentials.server}{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}"
            async with session.get(url, ssl=context) as answer:
                if answer.status == _TOO_MANY_REQUESTS:
                    await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
                    continue
                answer.raise_for_status()
                started.set()
                async for line in answer.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"the watch of {path} ended: {event['object']}")
                    version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        take(event["type"], event["object"])

    timeout = aiohttp.ClientTimeout(total=None)
    async with (
        aiohttp.ClientSession(timeout=timeout, read_bufsize=2**22) as session,
        asyncio.TaskGroup() as tasks,  # a watch that fails ends the block at once
    ):
        task = tasks.create_task(watch(session))
        await started.wait()
        yield
        task.cancel()
