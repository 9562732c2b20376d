"""``/metrics``, ``/healthz`` and ``/readyz`` on one port."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from laneway.api.listener import listen
from laneway.operator.metrics import Metrics
from prometheus_client import CONTENT_TYPE_LATEST

logger = logging.getLogger(__name__)

Check = Callable[[], str]
"""Returns what is wrong, as a sentence; empty where nothing is."""


@asynccontextmanager
async def serve(
    address: str, port: int, metrics: Metrics, healthy: Check, ready: Check
) -> AsyncIterator[int]:
    """Serve on an address, or on all where it is empty, until the block ends; gives the port (any free one where 0 was asked for).

    Raises:
        OSError: the port is taken, or the address is not this machine's.
    """

    async def show_metrics(_: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def answer(check: Check) -> Callable[[web.Request], object]:
        async def handle(_: web.Request) -> web.Response:
            problem = check()
            return web.Response(text=(problem or "ok") + "\n", status=503 if problem else 200)

        return handle

    application = web.Application()
    application.router.add_get("/metrics", show_metrics)
    application.router.add_get("/healthz", answer(healthy))  # type: ignore[arg-type]
    application.router.add_get("/readyz", answer(ready))  # type: ignore[arg-type]
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        listening = listen(address, port)
        bound = int(listening.getsockname()[1])
        await web.SockSite(runner, listening).start()
        logger.info("serving metrics and health", extra={"port": bound})
        yield bound
    finally:
        await runner.cleanup()
