"""Plays the seeds of kinds of faults, several cells at a time, and says how to play one of them again.

``CELLS="watch-dropped:7 kill-after-write"`` plays only these (a kind without a number: all of its seeds); ``SEEDS=10`` plays ten times as
many of each kind.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Iterator

from laneway.operator.watch.apiserver import Raw

from tests.faults.cell import Grounds, Outcome, cell, outcome_of
from tests.faults.gangs_life import GANGS
from tests.faults.kinds import KINDS, nothing
from tests.faults.life import Life

_AT_A_TIME = int(os.environ.get("AT_A_TIME", "4"))
_CYCLE = '"message": "cycle"'
_LONGEST_REPORT = 60_000
_undisturbed: dict[str, Raw] = {}


def asked_for_some() -> bool:
    """Whether the environment asks for some cells and no others."""
    return bool(os.environ.get("CELLS", "").split())


def asked_for(kind: str) -> list[int] | None:
    """Return the seeds of a kind that the environment asks for; empty where it asks for other kinds, None where for nothing."""
    cells = os.environ.get("CELLS", "").split()
    if not cells:
        return None
    seeds: list[int] = []
    for name, _, seed in (each.partition(":") for each in cells):
        if name not in KINDS:
            raise ValueError(
                f"CELLS: there is no fault {name!r}: write some of {', '.join(KINDS)}, with :SEED"
            )
        if name == kind:
            if not seed:
                return None
            seeds.append(int(seed))
    return seeds


def seeds_of(kind: str) -> Iterator[int]:
    """Yield the seeds to play."""
    asked, usual = asked_for(kind), KINDS[kind].seeds
    if asked is not None:
        yield from asked
    else:
        yield from range(1, usual * int(os.environ.get("SEEDS", "1")) + 1)


async def sweep(grounds: Grounds, kinds: Iterable[str]) -> dict[str, dict[int, Outcome]]:
    """Play all seeds of some kinds; return what came out, by kind and seed."""
    kinds = tuple(kinds)
    ends = {kind: await undisturbed(grounds, KINDS[kind].life) for kind in kinds}
    outcomes: dict[str, dict[int, Outcome]] = {kind: {} for kind in kinds}
    cells = iter([(kind, seed) for kind in kinds for seed in seeds_of(kind)])

    async def play_on() -> None:
        for kind, seed in cells:
            outcomes[kind][seed] = await play(grounds, kind, seed, ends[kind])

    await asyncio.gather(*(play_on() for _ in range(_AT_A_TIME)))
    return outcomes


async def play(grounds: Grounds, kind: str, seed: int, end: Raw) -> Outcome:
    """Play one cell."""
    async with cell(grounds, KINDS[kind].life) as live:
        fault = await KINDS[kind].begin(live, seed)
        return await outcome_of(live, fault, end)


async def undisturbed(grounds: Grounds, life: Life = GANGS) -> Raw:
    """Return where a life ends without a fault; played once."""
    if life.name not in _undisturbed:
        async with cell(grounds, life) as live:
            outcome = await outcome_of(live, await nothing(live, 0), None)
        if outcome.end is None or outcome.violations:
            raise AssertionError(f"without any fault: {report('nothing', {0: outcome})}")
        _undisturbed[life.name] = outcome.end
    return _undisturbed[life.name]


def report(kind: str, outcomes: dict[int, Outcome]) -> str:
    """Return the violations, the commands that reproduce them, and the log of the first cell; empty if nothing went wrong."""
    wrong = {seed: outcome for seed, outcome in sorted(outcomes.items()) if outcome.violations}
    lines = []
    for seed, outcome in wrong.items():
        lines += [f"make test-faults CELLS={kind}:{seed}"] if kind in KINDS else []
        lines += [f"    {violation}" for violation in outcome.violations[:10]]
    if wrong:
        log = next(iter(wrong.values())).log.splitlines()
        lines += ["the log of the first, without its cycles:", *(line for line in log if _CYCLE not in line)]
    return "\n".join(lines)[:_LONGEST_REPORT]
