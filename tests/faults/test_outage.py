"""An API server that is killed and comes back, again and again, in the midst of several lives."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from tests.faults.cell import Cell, Grounds, Outcome, cell, outcome_of
from tests.faults.kinds import nothing
from tests.faults.sweep import asked_for_some, report, undisturbed
from tests.support.api_faults.fault import Fault
from tests.support.operator.waiting import until

pytestmark = pytest.mark.skipif(asked_for_some(), reason="CELLS asks for other faults")

STARTER = ThreadPoolExecutor(1)
"""The API server ends with the thread that started it, so this one must outlive the test."""

LIVES = 3
OUTAGES = 2


@pytest.mark.timeout(900)
async def test_an_api_server_that_is_killed_and_comes_back(
    control_plane: LoopbackControlPlane, grounds: Grounds
) -> None:
    end = await undisturbed(grounds)
    async with AsyncExitStack() as stack:
        lives = [await stack.enter_async_context(cell(grounds)) for _ in range(LIVES)]
        for live in lives:
            await nothing(live, 0)
        played = [asyncio.create_task(outcome_of(live, Fault(), end)) for live in lives]
        for _ in range(OUTAGES):
            await more_is_written(lives, played)
            control_plane.kill("kube-apiserver")
            await asyncio.get_running_loop().run_in_executor(STARTER, control_plane.start, "kube-apiserver")
        outcomes = dict(enumerate(await asyncio.gather(*played)))
        assert all(live.replicas[0].alive for live in lives), "it is the process that it was"
    if problems := report("", outcomes):
        pytest.fail(problems, pytrace=False)


async def more_is_written(lives: list[Cell], played: list[asyncio.Task[Outcome]]) -> None:
    """Wait until every operator has written again; one whose life is over has nothing to write."""

    def written() -> list[int]:
        return [len(live.journal.writes) for live in lives]

    before = written()

    async def look() -> bool:
        return all(
            now > then or life.done() for now, then, life in zip(written(), before, played, strict=True)
        )

    await until("every operator writes", look, 300)
