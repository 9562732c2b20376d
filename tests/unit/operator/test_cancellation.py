"""What runs for ever ends when it is told to, also at the very moment at which something comes that it waits for."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from laneway.operator.apiserver import ApiServer
from laneway.operator.cache import ClusterCache
from laneway.operator.config import LeaseConfig, OperatorConfig
from laneway.operator.engine import Engine
from laneway.operator.leader import Leadership
from laneway.operator.metrics import Metrics
from laneway.operator.writer import Writer

_PATIENCE_SECONDS = 30.0


async def _ends(task: asyncio.Task[None]) -> bool:
    task.cancel()
    await asyncio.wait([task], timeout=_PATIENCE_SECONDS)
    ended = task.done()
    task.cancel()
    return ended


async def test_an_engine_that_is_woken_as_it_is_cancelled_ends() -> None:
    nobody = cast(Any, SimpleNamespace(leads=False, identity="a", seconds_left=lambda: 0.0))
    cache, metrics, api = ClusterCache(lambda: 0.0), Metrics(), cast(ApiServer, None)
    writer = Writer(api, cache, metrics, lambda: 0.0)
    engine = Engine(OperatorConfig(), api, cache, writer, metrics, nobody, wall=lambda: 0.0)
    task = asyncio.create_task(engine.run())
    await asyncio.sleep(0.01)
    engine.wake()
    await asyncio.sleep(0)
    assert await _ends(task)


async def test_a_campaign_that_is_answered_as_it_is_cancelled_ends() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def read() -> dict[str, Any]:
        asked.set()
        await answer.wait()
        return {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "another"}}

    async def put(lease: dict[str, Any], new: bool) -> dict[str, Any]:
        return lease

    part = Leadership(LeaseConfig(), "ns", "a", monotonic=lambda: 0.0, wall=lambda: 0.0, read=read, put=put)
    task = asyncio.create_task(part.campaign(lambda: None))
    await asyncio.wait_for(asked.wait(), _PATIENCE_SECONDS)
    answer.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await _ends(task)
