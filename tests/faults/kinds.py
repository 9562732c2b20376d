"""The kinds of faults by name, and the default number of seeds of each.

To add one, write a function that adds a replica to a cell and starts it, and an entry in KINDS; `make generate` writes its row into
docs/reliability.md.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

from laneway.operator.state.resources import TRAINING_JOBS
from laneway.operator.watch.apiserver import ApiError, Raw, UnknownOutcome

from tests.faults.answer_faults import Refused, Reset, Slow
from tests.faults.cell import CONFIG, Cell
from tests.faults.gangs_life import GANGS
from tests.faults.kills import KilledAt, KilledAtEvery, Moment
from tests.faults.life import Life
from tests.faults.pausing_life import PAUSING
from tests.faults.scaling_life import SCALING
from tests.faults.stale_reads import StaleReads
from tests.faults.watch_faults import Broken, Delayed, Doubled, Dropped
from tests.support.api_faults.fault import Dice, Fault, Request

KILLS_APART = int(os.environ.get("KILLS_APART") or 8)
"""Seed n kills at the n-th write and then at every write this number later, so that this number of seeds
covers every write. The first life has about 60, the second about 90: with KILLS_APART=100 each cell has one
kill."""

_OTHER_MOMENTS = KILLS_APART if os.environ.get("KILLS_APART") else 1
"""The cluster is the same before a write as after the previous one, and does not depend on whether a response
arrived. Only the concurrent writes differ, so one seed is the default."""

_LISTS_OFTEN: Raw = {**CONFIG, "cycle": {**CONFIG["cycle"], "relistSeconds": 1}}
"""A lost watch event is found by the next list, every five minutes by default."""

Begin = Callable[[Cell, int], Awaitable[Fault]]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault."""

    begin: Begin
    """Starts the operator of a cell behind the fault with this seed."""

    seeds: int
    """Seeds from 1 to this number are played."""

    description: str
    """What the fault does, for docs/reliability.md."""

    pattern: str = ""
    """The pattern of Sieve (Sun et al., OSDI'22) that it belongs to."""

    life: Life = GANGS


async def nothing(cell: Cell, _: int) -> Fault:
    """An undisturbed operator."""
    return await _behind(cell, Fault())


async def _behind(cell: Cell, fault: Fault, config: Raw = CONFIG) -> Fault:
    (await cell.add_replica(fault, config)).start()
    return fault


def _seeded(make: Callable[[int], Fault], config: Raw = CONFIG) -> Begin:
    async def begin(cell: Cell, seed: int) -> Fault:
        return await _behind(cell, make(seed), config)

    return begin


async def _killed_at(moment: Moment, cell: Cell, number: int) -> Fault:
    fault = KilledAt(number, KILLS_APART, moment, lambda: cell.kill_and_start(replica))
    replica = await cell.add_replica(fault)
    replica.start()
    return fault


async def _killed_at_every(cell: Cell, _: int) -> Fault:
    fault = KilledAtEvery(lambda: cell.kill_and_start(replica))
    replica = await cell.add_replica(fault)
    replica.start()
    return fault


class _KilledIntoThePast(StaleReads):
    """Kills at a write; the next process reads the past for a while, without any of the killed one's
    writes."""

    def __init__(self, cell: Cell, seed: int, kill: Callable[[], None]) -> None:
        super().__init__()
        dice = Dice(seed).roll("time travel")
        self._at_write = dice.randint(2, 50)
        self._changes_back = dice.randint(1, 12)
        self._for_seconds = dice.uniform(0.5, 2.0)
        self._cell = cell
        self._kill = kill
        self._written = 0

    async def sent(self, request: Request) -> None:
        """Kill, and freeze the reads."""
        self._written += request.of_consequence
        if self._written != self._at_write or not request.of_consequence or self.fired:
            return
        versions = [change.version for change in self._cell.history.changes]
        self.freeze(versions[-self._changes_back :][0])
        self._kill()
        asyncio.get_running_loop().call_later(self._for_seconds, self.thaw)


async def _killed_into_the_past(cell: Cell, seed: int) -> Fault:
    fault = _KilledIntoThePast(cell, seed, lambda: cell.kill_and_start(replica))
    replica = await cell.add_replica(fault)
    replica.start()
    return fault


async def _in_the_past_now_and_then(cell: Cell, seed: int) -> Fault:
    """While the operator runs, all its reads are repeatedly frozen for a while."""
    fault = StaleReads()
    await _behind(cell, fault)
    dice = Dice(seed).roll("now and then")

    async def stand_still() -> None:
        while True:
            await asyncio.sleep(dice.uniform(0.05, 0.3))
            if cell.history.changes:
                fault.freeze(cell.history.version)
                await asyncio.sleep(dice.uniform(0.1, 0.8))
                fault.thaw()

    cell.accompany(stand_still())
    return fault


async def _another_writer(cell: Cell, seed: int) -> Fault:
    """Another client writes to every job all the time, so that the operator's decisions are based on old
    versions."""
    fault = await _behind(cell, Fault())
    dice = Dice(seed).roll("storm")

    async def storm() -> None:
        for number in itertools.count():
            for job in cell.history.jobs:
                path = TRAINING_JOBS.path(cell.namespace, job["metadata"]["name"])
                body = {"metadata": {"annotations": {"storm": str(number)}}}
                try:
                    await cell.grounds.api.request(
                        "PATCH", path, body=body, content_type="application/merge-patch+json"
                    )
                    fault.fired = True
                except (ApiError, UnknownOutcome):
                    continue  # the job is gone
            await asyncio.sleep(dice.uniform(0.005, 0.03))

    cell.accompany(storm())
    return fault


_GANGS: dict[str, Kind] = {
    "kill-before-write": Kind(
        partial(_killed_at, Moment.BEFORE),
        _OTHER_MOMENTS,
        "kill −9 before the n-th write is sent",
        "intermediate states",
    ),
    "kill-unheard-write": Kind(
        partial(_killed_at, Moment.UNHEARD),
        _OTHER_MOMENTS,
        "kill −9 after the n-th write is carried out, before its response",
        "intermediate states",
    ),
    "kill-after-write": Kind(
        partial(_killed_at, Moment.AFTER),
        KILLS_APART,
        "kill −9 after the response to the n-th write",
        "intermediate states",
    ),
    "kill-every-write": Kind(
        _killed_at_every, 1, "kill −9 at the first write of each process", "intermediate states"
    ),
    "watch-delayed": Kind(
        _seeded(Delayed),
        2,
        "watch events arrive late, each kind by a different delay: kinds overtake one another",
        "stale states, reordered",
    ),
    "watch-dropped": Kind(
        _seeded(Dropped, _LISTS_OFTEN), 2, "three of ten watch events never arrive", "unobserved states"
    ),
    "watch-doubled": Kind(
        _seeded(Doubled), 2, "watch events arrive twice, and old ones again", "stale states"
    ),
    "watch-broken": Kind(
        _seeded(Broken, _LISTS_OFTEN),
        2,
        "watches end: quietly, inside a line, with 410 Gone; some fail to start",
        "unobserved states",
    ),
    "stale-after-kill": Kind(
        _killed_into_the_past,
        4,
        "kill −9, then all reads are up to 12 changes old for up to 2 s",
        "stale states",
    ),
    "stale-reads": Kind(
        _in_the_past_now_and_then, 2, "all reads stand still, again and again", "stale states"
    ),
    "answers-refused": Kind(
        _seeded(Refused),
        2,
        "a quarter of all requests are refused with 429, 500, 503 or 504, half of them after they were carried out",
    ),
    "answers-lost": Kind(
        _seeded(Reset),
        2,
        "a quarter of all connections are reset, before or after the request was carried out",
    ),
    "answers-slow": Kind(
        _seeded(Slow), 2, "each request takes up to 1 s longer, so that concurrent requests land in any order"
    ),
    "conflicts": Kind(_another_writer, 1, "another client writes to every job all the time (409 after 409)"),
}

_SCALING = ("kill-after-write", "watch-dropped", "stale-after-kill")
"""The faults of the third life, which is about one more reason to stop an attempt."""

KINDS: dict[str, Kind] = _GANGS | {
    f"pausing-{name}": replace(
        kind, seeds=kind.seeds if name.startswith("kill-") else (kind.seeds + 1) // 2, life=PAUSING
    )
    for name, kind in _GANGS.items()
    if name != "kill-every-write"
}
KINDS |= {
    f"scaling-{name}": replace(
        _GANGS[name],
        seeds=_GANGS[name].seeds if name.startswith("kill-") else 1,
        life=SCALING,
    )
    for name in _SCALING
}
"""The faults in all lives. Dying at every first write shows whether each process makes progress. One seed is
enough: it takes a hundred processes."""
