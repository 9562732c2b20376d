"""Work at the API server beside the cycles: one of a kind at a time, tried again after an error, never in a cycle's way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from laneway.operator import upkeep as upkeep_module
from laneway.operator.execute.writer import FencedOff
from laneway.operator.upkeep import Upkeep
from laneway.operator.watch.apiserver import ApiError, UnknownOutcome
from laneway.operator.watch.relist import ListedThePast


class Watched:
    """Upkeep, and what it has called."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self.fenced_off = False
        self.upkeep = Upkeep(self.woken.set, self._fence_off)

    def _fence_off(self) -> None:
        self.fenced_off = True


def work(result: bool | BaseException) -> Callable[[], Awaitable[bool]]:
    async def run() -> bool:
        await asyncio.sleep(0)
        if isinstance(result, BaseException):
            raise result
        return result

    return run


async def settled(watched: Watched, kind: str) -> None:
    for _ in range(10):
        await asyncio.sleep(0)
    assert not watched.upkeep.under_way(kind)


@pytest.mark.parametrize("wants_a_cycle", [True, False])
async def test_a_cycle_follows_where_it_is_asked_for(wants_a_cycle: bool) -> None:
    watched = Watched()
    watched.upkeep.begin("list", work(wants_a_cycle))
    assert watched.upkeep.under_way("list")
    await settled(watched, "list")
    assert watched.woken.is_set() is wants_a_cycle


async def test_one_of_a_kind_is_under_way_and_other_kinds_go_on() -> None:
    watched, hangs, begun = Watched(), asyncio.Event(), list[str]()

    async def hang() -> bool:
        begun.append("list")
        await hangs.wait()
        return False

    for _ in range(3):
        watched.upkeep.begin("list", hang)
        watched.upkeep.begin("workers", work(True))
        await settled(watched, "workers")
    assert begun == ["list"]
    hangs.set()
    await settled(watched, "list")
    watched.upkeep.begin("list", hang)
    await settled(watched, "list")
    assert begun == ["list", "list"]


@pytest.mark.parametrize(
    "error", [ApiError(500, "", "away"), UnknownOutcome("no answer"), ListedThePast("too old")]
)
async def test_where_the_api_server_fails_a_cycle_follows_after_a_pause(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(upkeep_module, "RETRY_CYCLE_SECONDS", 0.01)
    watched = Watched()
    watched.upkeep.begin("list", work(error))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert watched.upkeep.under_way("list"), "until then it is not begun again"
    await asyncio.wait_for(watched.woken.wait(), 30)
    assert not watched.upkeep.under_way("list")
    watched.upkeep.check()


async def test_a_write_of_a_replica_that_does_not_lead_fences_it_off() -> None:
    watched = Watched()
    watched.upkeep.begin("workers", work(FencedOff("its time is over")))
    await settled(watched, "workers")
    assert watched.fenced_off
    assert watched.woken.is_set()


async def test_a_fault_of_our_own_is_not_swallowed() -> None:
    watched = Watched()
    watched.upkeep.begin("workers", work(KeyError("uid")))
    await settled(watched, "workers")
    assert watched.woken.is_set()
    with pytest.raises(KeyError, match="uid"):
        watched.upkeep.check()


async def test_at_the_end_nothing_is_under_way() -> None:
    watched, cancelled = Watched(), list[str]()

    async def hang() -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("list")
            raise
        return True

    watched.upkeep.begin("list", hang)
    await asyncio.sleep(0)
    watched.upkeep.begin("workers", hang)  # has not taken its first step
    await watched.upkeep.end()
    await watched.upkeep.end()
    assert not watched.upkeep.under_way("workers")
    assert (cancelled, watched.upkeep.under_way("list")) == (["list"], False)
