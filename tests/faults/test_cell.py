"""The end of a cell."""

from __future__ import annotations

import pytest

from tests.faults.cell import Grounds, cell
from tests.faults.stale_reads import StaleReads
from tests.faults.sweep import asked_for_some
from tests.support.operator.waiting import until

pytestmark = pytest.mark.skipif(asked_for_some(), reason="CELLS asks for other faults")


async def test_a_replica_that_is_started_again_while_its_cell_ends_is_killed_too(grounds: Grounds) -> None:
    async with cell(grounds) as live:

        async def start_again() -> None:
            async def runs() -> bool:
                return replica.alive

            live.kill_and_start(replica)
            await until("it runs", runs)

        live.stack.push_async_callback(start_again)  # after the end of what is added below
        replica = await live.add_replica(StaleReads())
    try:
        assert replica.lives == 1
        assert not replica.alive
    finally:
        replica.kill()
