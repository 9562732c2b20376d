"""A status that takes GPUs waits for those that free them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from laneway.api.training_job import TrainingJobStatus
from laneway.operator import transitions
from laneway.operator.releases import Releases
from laneway.operator.statements import JobStatement
from laneway.scheduling import Depth, WorkerPlacement

from tests.unit.operator.builders import NOW, a_job, a_pod


def statement(before: TrainingJobStatus, after: TrainingJobStatus, name: str = "j") -> JobStatement:
    return JobStatement(a_job(name).record.with_status(before), after, write=True)


def placed(gpu: str) -> TrainingJobStatus:
    return transitions.placed(WAITS, [WorkerPlacement(0, "n1", (gpu,), 100)], NOW)


WAITS = transitions.first_visited(TrainingJobStatus(), NOW, NOW)
RUNS = transitions.started(placed("GPU-0"), "AllWorkersRun", "they run", NOW)
TOLD = transitions.told_to_park(RUNS, Depth.PAUSE, "HigherQueue", "why", NOW, "ns/new")
PAUSED = transitions.parked(TOLD, NOW)
SUCCEEDED = transitions.succeeded(RUNS, "done", NOW, NOW)
EVICTED = transitions.preempted(RUNS, "HigherQueue", "why", NOW)
STARTS = statement(WAITS, placed("GPU-0"), "new")
ENDS = statement(RUNS, SUCCEEDED, "old")


@pytest.mark.parametrize(
    ("story", "before", "after", "frees"),
    [
        ("it has succeeded", RUNS, SUCCEEDED, True),
        ("it makes way by ending", RUNS, EVICTED, True),
        ("it has been told to pause", RUNS, TOLD, False),
        ("it has paused", TOLD, PAUSED, True),
        ("only its figures are new", RUNS, transitions.changed(RUNS, turns=7), False),
    ],
)
def test_what_frees_gpus(
    story: str, before: TrainingJobStatus, after: TrainingJobStatus, frees: bool
) -> None:
    assert statement(before, after).frees == ({"GPU-0"} if frees else set()), story
    assert not statement(before, after).takes


def test_who_starts_and_who_goes_on_takes_gpus() -> None:
    assert STARTS.takes == {"GPU-0"}
    assert statement(PAUSED, transitions.resumed(PAUSED, NOW)).takes == {"GPU-0"}


async def test_a_start_waits_for_the_status_that_frees_its_gpus_and_for_no_other() -> None:
    releases = Releases()
    releases.begin(ENDS)
    assert await releases.landed(statement(WAITS, placed("GPU-1"), "other"))
    waiting = asyncio.ensure_future(releases.landed(STARTS))
    await asyncio.sleep(0)
    assert not waiting.done()
    releases.end(ENDS, written=True)
    assert await waiting
    assert await releases.landed(STARTS), "nothing is under way any more"


async def test_a_start_does_not_go_ahead_where_the_gpus_were_not_given_back() -> None:
    releases = Releases()
    releases.begin(ENDS)
    waiting = asyncio.ensure_future(releases.landed(STARTS))
    await asyncio.sleep(0)
    releases.end(ENDS, written=False)
    releases.end(ENDS, written=True)
    assert not await waiting, "what is said first counts"


async def test_nobody_waits_for_a_status_that_is_not_written() -> None:
    releases = Releases()
    releases.begin(replace(ENDS, write=False))
    assert await releases.landed(STARTS)


async def test_a_job_is_told_that_others_make_way_when_they_have_been_told() -> None:
    pod = a_pod(a_job("old").placed("n1").record).record
    victim = replace(statement(RUNS, TOLD, "old"), yielding=(pod,))
    beneficiary = replace(statement(WAITS, WAITS, "new"), awaits=frozenset({"ns/old"}))
    for written in (True, False):
        releases = Releases()
        releases.begin(victim)
        waiting = asyncio.ensure_future(releases.landed(beneficiary))
        await asyncio.sleep(0)
        assert not waiting.done()
        releases.end(victim, written=written)
        assert await waiting is written
