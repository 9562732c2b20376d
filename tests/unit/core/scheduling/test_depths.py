"""How far a job makes way: no further than it takes, where there is room for jobs that are paused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.lanes import LaneRules
from laneway.scheduling import Depth, JobState, Node, WaitingCode

from tests.unit.core.scheduling.builders import GIB, JobBuilder, a_job, a_node, planned


def with_parking(gpus: int = 1, memory: int = 40 * GIB) -> Node:
    """A node whose GPUs offer as much again to jobs that are paused."""
    node = a_node("n", gpus, memory=memory, percent=200, lanes=LaneRules(padding_percent=0))
    return replace(node, gpus=tuple(replace(gpu, active_percent=100) for gpu in node.gpus))


def old(name: str, *gpus: str) -> JobBuilder:
    return a_job(name).served(9000).runs_on(*gpus)


@pytest.mark.parametrize(
    ("story", "victim", "comer", "depth"),
    [
        ("what it keeps leaves the comer room", (10, 5), (20, 10), Depth.PAUSE),
        ("only if its memory goes to the host", (25, 5), (20, 10), Depth.OFFLOAD),
        ("its memory counts as its whole share while nobody has measured it", None, (20, 10), Depth.OFFLOAD),
    ],
)
def test_a_victim_goes_no_further_than_it_takes(
    story: str, victim: tuple[int, int] | None, comer: tuple[int, int], depth: Depth
) -> None:
    runs = old("old", "n/0")
    if victim is not None:
        runs = runs.profiled(victim[0] * GIB, victim[1] * GIB)
    new = a_job("new").profiled(comer[0] * GIB, comer[1] * GIB).created(10)
    found = planned([with_parking()], runs, new)
    assert found.preemptions["old"].depth is depth, story
    assert found.waiting["new"].code is WaitingCode.AWAITING_PREEMPTION


def test_where_nothing_is_on_offer_beyond_turns_it_is_evicted() -> None:
    found = planned([a_node("n", 1)], old("old", "n/0").profiled(GIB, GIB), a_job("new").created(10))
    assert found.preemptions["old"].depth is Depth.EVICT


def test_beside_a_paused_job_the_one_starts_that_it_made_way_for() -> None:
    paused = old("old", "n/0").profiled(10 * GIB, 5 * GIB).runs_on("n/0", state=JobState.PAUSED)
    found = planned([with_parking()], paused, a_job("new").profiled(20 * GIB, 10 * GIB).created(10))
    assert set(found.starts) == {"new"}
    assert found.waiting["old"].code is WaitingCode.GPUS_BUSY
    assert "paused" in found.waiting["old"].message


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.OFFLOADED])
def test_a_parked_job_goes_on_where_it_is_when_the_turns_are_free(state: JobState) -> None:
    found = planned([with_parking()], old("old", "n/0").runs_on("n/0", state=state))
    assert found.resumes == ("old",)
    assert not found.waiting


def test_an_offloaded_job_does_not_come_back_into_memory_that_is_taken() -> None:
    parked = old("old", "n/0").profiled(25 * GIB, 5 * GIB).runs_on("n/0", state=JobState.OFFLOADED)
    other = a_job("other").share(10).profiled(20 * GIB, GIB).runs_on("n/0")
    other = JobBuilder(replace(other.made, demand=replace(other.made.demand, share_percent=100)))
    found = planned([with_parking()], parked, other)
    assert not found.resumes


def test_a_paused_job_is_evicted_when_its_ids_are_needed() -> None:
    parked = old("parked", "n/0").profiled(GIB, GIB).runs_on("n/0", state=JobState.PAUSED)
    running = old("running", "n/0").profiled(GIB, GIB)
    new = a_job("new").profiled(GIB, GIB).created(10)
    found = planned([with_parking()], parked, running, new)
    depths = {key: preemption.depth for key, preemption in found.preemptions.items()}
    assert depths == {"running": Depth.EVICT}, (
        "the last in the order; the parked one could not go on beside the new"
    )


def test_who_wants_a_gpu_alone_gets_it_where_there_is_room_for_paused_ones() -> None:
    found = planned(
        [with_parking()], a_job("alone").needs(exclusive=True), a_job("other").share(10).created(10)
    )
    assert set(found.starts) == {"alone"}
    assert found.starts["alone"][0].share_percent == 100


@pytest.mark.parametrize("state", [JobState.PAUSING, JobState.OFFLOADING])
def test_who_is_about_to_be_parked_holds_all_that_it_has_until_it_is(state: JobState) -> None:
    victim = old("old", "n/0").profiled(10 * GIB, 5 * GIB).runs_on("n/0", state=state)
    new = a_job("new").profiled(20 * GIB, 10 * GIB).created(10)
    found = planned([with_parking()], victim, new, a_job("next").created(20))
    assert not found.starts
    assert not found.preemptions, "what is under way is not ordered a second time"
    assert found.waiting["new"].code is WaitingCode.AWAITING_DEPARTURE
    assert found.waiting["new"].blockers == ("old",)
    assert "old" not in {*found.keeps, *found.waiting, *found.resumes}


def test_what_a_job_keeps_that_is_about_to_be_paused_is_not_promised() -> None:
    victim = old("old", "n/0").profiled(25 * GIB, 5 * GIB)
    new = a_job("new").profiled(20 * GIB, 10 * GIB).created(10)
    pausing = planned([with_parking()], victim.runs_on("n/0", state=JobState.PAUSING), new)
    assert pausing.waiting["new"].code is not WaitingCode.AWAITING_DEPARTURE
    offloading = planned([with_parking()], victim.runs_on("n/0", state=JobState.OFFLOADING), new)
    assert offloading.waiting["new"].code is WaitingCode.AWAITING_DEPARTURE


def test_who_cannot_be_parked_is_evicted() -> None:
    unable = JobBuilder(replace(old("old", "n/0").profiled(GIB, GIB).made, parkable=False))
    found = planned([with_parking()], unable, a_job("new").profiled(GIB, GIB).created(10))
    assert found.preemptions["old"].depth is Depth.EVICT
