"""Two replicas, one of which acts: nothing of the old leader lands after the new one's first write.

The proxies see every write of both. A leader is stopped (SIGSTOP) past its lease, cut off from the API server alone, or has a
clock that is two minutes ahead or behind; the life that is lived meanwhile ends where an undisturbed one does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
from laneway.operator.state.resources import LEASES

from tests.faults.cell import CONFIG, LEASE, Cell, Grounds, Outcome, cell, outcome_of
from tests.faults.leaders import CutOff, LeaseSeen, Stopping
from tests.faults.replica import Replica
from tests.faults.sweep import asked_for_some, report, undisturbed
from tests.support.api_faults.fault import Fault
from tests.support.operator.waiting import until

pytestmark = [
    pytest.mark.skipif(asked_for_some(), reason="CELLS asks for other faults"),
    pytest.mark.timeout(900),
]

SHORT_LEASE: dict[str, Any] = {
    **CONFIG,
    "lease": {"name": LEASE, "durationSeconds": 6, "renewDeadlineSeconds": 5, "retrySeconds": 1},
}
"""One that is soon taken over, and that a busy machine does not take from a leader which nothing disturbs."""


class Pair:
    """Two replicas in one cell."""

    def __init__(self, live: Cell, first: Replica, second: Replica) -> None:
        self.live = live
        self.first = first
        self.second = second

    async def writers(self) -> set[str]:
        """Return the replicas that have written jobs so far."""
        return {write.writer for write in self.live.journal.writes}

    def let_go_on(self, replica: Replica) -> None:
        """SIGCONT."""
        self.live.journal.continued.append((replica.life, time.monotonic()))
        replica.resume()

    async def until_written_by(self, replica: Replica) -> None:
        """Wait until a replica has written."""

        async def look() -> bool:
            return replica.life in await self.writers()

        await until(f"{replica.name} writes", look, 300)

    async def until_led_by(self, replica: Replica) -> None:
        """Wait until the lease was written by a replica last."""

        async def look() -> bool:
            leases = self.live.journal.leases
            return bool(leases) and leases[-1].writer == replica.life

        await until(f"{replica.name} leads", look, 300)


async def pair(live: Cell, fault: Fault, *, ahead_seconds: float = 0.0) -> Pair:
    """Start two replicas, each behind its own fault; the first leads, and the second's clock may differ."""
    # Before the first one leads: the longer it leads and has nothing to do, the more may come between.
    await undisturbed(live.grounds)
    first = await live.add_replica(fault, SHORT_LEASE)
    standing_by = LeaseSeen()
    second = await live.add_replica(standing_by, SHORT_LEASE, clock_ahead_seconds=ahead_seconds)
    both = Pair(live, first, second)
    first.start()
    await both.until_led_by(first)
    second.start()
    async with asyncio.timeout(300):
        await standing_by.seen.wait()
    return both


async def live_through(live: Cell, fault: Fault, disturb: Coroutine[Any, Any, None]) -> Outcome:
    """Live through the scenario beside a disturbance."""
    end = await undisturbed(live.grounds)
    disturbance = asyncio.create_task(disturb)
    outcome = await outcome_of(live, fault, end)
    await disturbance
    return outcome


def harmless(outcome: Outcome) -> None:
    """Fail with all that did not hold."""
    if problems := report("", {0: outcome}):
        pytest.fail(problems, pytrace=False)


async def test_a_leader_that_is_stopped_past_its_lease(grounds: Grounds) -> None:
    """Each one in turn, again and again, wherever it happens to be."""
    async with cell(grounds) as live:
        both = await pair(live, Fault())

        async def stop_each_in_turn() -> None:
            for leader, other in ((both.first, both.second), (both.second, both.first)):
                await both.until_written_by(leader)
                leader.pause()
                await both.until_led_by(other)
                both.let_go_on(leader)

        harmless(await live_through(live, Fault(), stop_each_in_turn()))
        assert {write.writer for write in live.journal.writes} == {both.first.life, both.second.life}


async def test_a_leader_that_is_stopped_with_a_write_in_mid_air(grounds: Grounds) -> None:
    """A request of the old leader may land after its lease has ended: the API server refuses it, or it does no harm."""
    async with cell(grounds) as live:
        fault = Stopping()
        both = await pair(live, fault)

        async def stop_in_mid_air() -> None:
            await both.until_written_by(both.first)
            fault.armed = True
            await fault.held.wait()
            both.first.pause()
            await both.until_written_by(both.second)
            fault.let_go()
            both.let_go_on(both.first)

        harmless(await live_through(live, fault, stop_in_mid_air()))


async def test_a_leader_that_is_cut_off_from_the_api_server(grounds: Grounds) -> None:
    async with cell(grounds) as live:
        fault = CutOff()
        both = await pair(live, fault)

        async def cut_it_off() -> None:
            await both.until_written_by(both.first)
            fault.cut()
            await both.until_written_by(both.second)
            fault.mend()

        harmless(await live_through(live, fault, cut_it_off()))


@pytest.mark.parametrize("ahead_seconds", [120.0, -120.0], ids=["ahead", "behind"])
async def test_replicas_whose_clocks_differ_by_two_minutes(grounds: Grounds, ahead_seconds: float) -> None:
    """No replica compares a lease with another replica's clock, and a change of leader loses no attained service."""
    async with cell(grounds) as live:
        both = await pair(live, Fault(), ahead_seconds=ahead_seconds)

        async def stop_the_first() -> None:
            await both.until_written_by(both.first)
            both.first.pause()
            await both.until_written_by(both.second)
            both.let_go_on(both.first)

        harmless(await live_through(live, Fault(), stop_the_first()))


async def test_a_lease_that_is_deleted_under_its_holder(grounds: Grounds) -> None:
    """The holder does not know yet: another that took the lease at once would be a second writer."""
    async with cell(grounds) as live:
        both = await pair(live, Fault())

        async def take_it_away() -> None:
            await both.until_written_by(both.first)
            await grounds.api.request("DELETE", LEASES.path(live.namespace, LEASE))

        harmless(await live_through(live, Fault(), take_it_away()))
        assert both.first.alive
        assert both.second.alive
