"""A status that takes GPUs waits for those that free them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.execute.write_order import WriteOrder
from laneway.operator.lifecycle import transitions
from laneway.scheduling import PreemptionAction, WorkerPlacement

from tests.unit.operator.builders import NOW, a_job, a_pod, a_write


def write(before: TrainingJobStatus, after: TrainingJobStatus, name: str = "j") -> JobWrite:
    return a_write(a_job(name).record.with_status(before), after)


def placed(gpu: str) -> TrainingJobStatus:
    return transitions.placed(WAITS, [WorkerPlacement(0, "n1", (gpu,), 100)], NOW)


WAITS = transitions.first_visited(TrainingJobStatus(), NOW, NOW)
RUNS = transitions.started(placed("GPU-0"), "AllWorkersRun", "they run", NOW)
TOLD = transitions.asked_to_pause(RUNS, PreemptionAction.PAUSE, "HigherQueue", "why", NOW, "ns/new")
PAUSED = transitions.paused(TOLD, NOW)
SUCCEEDED = transitions.succeeded(RUNS, "done", NOW, NOW)
EVICTED = transitions.preempted(RUNS, "HigherQueue", "why", NOW)
STARTS = write(WAITS, placed("GPU-0"), "new")
ENDS = write(RUNS, SUCCEEDED, "old")


@pytest.mark.parametrize(
    ("story", "before", "after", "frees"),
    [
        ("it has succeeded", RUNS, SUCCEEDED, True),
        ("it is evicted", RUNS, EVICTED, True),
        ("it has been told to pause", RUNS, TOLD, False),
        ("it has paused", TOLD, PAUSED, True),
        ("only its figures are new", RUNS, transitions.changed(RUNS, turns=7), False),
    ],
)
def test_what_frees_gpus(
    story: str, before: TrainingJobStatus, after: TrainingJobStatus, frees: bool
) -> None:
    assert write(before, after).frees == ({"GPU-0"} if frees else set()), story
    assert not write(before, after).takes


def test_who_starts_and_who_goes_on_takes_gpus() -> None:
    assert STARTS.takes == {"GPU-0"}
    assert write(PAUSED, transitions.resumed(PAUSED, NOW)).takes == {"GPU-0"}


async def test_a_start_waits_for_the_status_that_frees_its_gpus_and_for_no_other() -> None:
    write_order = WriteOrder()
    write_order.begin(ENDS)
    assert await write_order.landed(write(WAITS, placed("GPU-1"), "other"))
    waiting = asyncio.ensure_future(write_order.landed(STARTS))
    await asyncio.sleep(0)
    assert not waiting.done()
    write_order.end(ENDS, written=True)
    assert await waiting
    assert await write_order.landed(STARTS), "nothing is under way any more"


async def test_a_start_does_not_go_ahead_where_the_gpus_were_not_given_back() -> None:
    write_order = WriteOrder()
    write_order.begin(ENDS)
    waiting = asyncio.ensure_future(write_order.landed(STARTS))
    await asyncio.sleep(0)
    write_order.end(ENDS, written=False)
    write_order.end(ENDS, written=True)
    assert not await waiting, "what is said first counts"


async def test_nobody_waits_for_a_status_that_is_not_written() -> None:
    write_order = WriteOrder()
    write_order.begin(replace(ENDS, writes_status=False))
    assert await write_order.landed(STARTS)


async def test_a_job_starts_after_the_statuses_of_its_victims_are_written() -> None:
    pod = a_pod(a_job("old").placed("n1").record).record
    victim, preemptor = write(RUNS, TOLD, "old"), write(WAITS, WAITS, "new")
    victim = replace(victim, after=replace(victim.after, victims=(pod,)))
    preemptor = replace(preemptor, after=replace(preemptor.after, awaits=frozenset({"ns/old"})))
    for written in (True, False):
        write_order = WriteOrder()
        write_order.begin(victim)
        waiting = asyncio.ensure_future(write_order.landed(preemptor))
        await asyncio.sleep(0)
        assert not waiting.done()
        write_order.end(victim, written=written)
        assert await waiting is written
