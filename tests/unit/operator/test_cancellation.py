"""Endless tasks end when they are cancelled, also in the very step in which the event that they wait for arrives."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from laneway.operator.engine import Engine
from laneway.operator.execute.leader import Leadership
from laneway.operator.execute.writer import Writer
from laneway.operator.metrics import Metrics
from laneway.operator.state.cache import ClusterCache
from laneway.operator.watch.apiserver import ApiServer
from laneway.scheduling.config.operator_config import LeaseConfig, OperatorConfig

_PATIENCE_SECONDS = 60.0
_STEPS = range(8)
"""Steps of the event loop before and between the event and the cancellation. A task comes to rest within fewer than these, so every
moment is tried, without a clock."""


async def _steps(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def _ends(task: asyncio.Task[None]) -> bool:
    task.cancel()
    await asyncio.wait([task], timeout=_PATIENCE_SECONDS)
    ended = task.done()
    task.cancel()
    return ended


@pytest.mark.parametrize("between", range(3))
@pytest.mark.parametrize("before", _STEPS)
async def test_an_engine_that_is_woken_as_it_is_cancelled_ends(before: int, between: int) -> None:
    nobody = cast(Any, SimpleNamespace(leads=False, identity="a", seconds_left=lambda: 0.0))
    cache, metrics, api = ClusterCache(lambda: 0.0), Metrics(), cast(ApiServer, None)
    writer = Writer(api, cache, metrics, lambda: 0.0)
    engine = Engine(OperatorConfig(), api, cache, writer, metrics, nobody, wall=lambda: 0.0)
    task = asyncio.create_task(engine.run())
    await _steps(before)
    engine.wake()
    await _steps(between)
    assert await _ends(task)


@pytest.mark.parametrize("between", _STEPS)
async def test_a_campaign_that_is_answered_as_it_is_cancelled_ends(between: int) -> None:
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
    await _steps(between)
    assert await _ends(task)
