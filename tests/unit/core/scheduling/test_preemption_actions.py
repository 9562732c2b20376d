"""By which action a job is preempted: the mildest that suffices, where there is capacity for paused jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.lanes import LaneRules
from laneway.scheduling import Job, JobState, Node, PreemptionAction, WaitingCode, policies
from laneway.scheduling.preemption.lowest_first import LowestFirst

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import GIB, JobBuilder, a_job, a_node, planned


def with_pausing(gpus: int = 1, memory: int = 40 * GIB) -> Node:
    """A node whose GPUs offer as much again to jobs that are paused."""
    node = a_node("n", gpus, memory=memory, percent=200, lanes=LaneRules(padding_percent=0))
    return replace(node, gpus=tuple(replace(gpu, active_percent=100) for gpu in node.gpus))


def old(name: str, *gpus: str) -> JobBuilder:
    return a_job(name).served(9000).runs_on(*gpus)


@pytest.mark.parametrize(
    ("story", "victim", "comer", "depth"),
    [
        ("what it keeps leaves the comer room", (10, 5), (20, 10), PreemptionAction.PAUSE),
        ("only if its memory goes to the host", (25, 5), (20, 10), PreemptionAction.OFFLOAD),
        (
            "its memory counts as its whole share while nobody has measured it",
            None,
            (20, 10),
            PreemptionAction.OFFLOAD,
        ),
    ],
)
def test_a_victim_goes_no_further_than_it_takes(
    story: str, victim: tuple[int, int] | None, comer: tuple[int, int], depth: PreemptionAction
) -> None:
    runs = old("old", "n/0")
    if victim is not None:
        runs = runs.profiled(victim[0] * GIB, victim[1] * GIB)
    new = a_job("new").profiled(comer[0] * GIB, comer[1] * GIB).created(10)
    found = planned([with_pausing()], runs, new)
    assert found.preemptions["old"].action is depth, story
    assert found.waiting["new"].code is WaitingCode.AWAITING_PREEMPTION


def test_where_nothing_is_on_offer_beyond_turns_it_is_evicted() -> None:
    found = planned([a_node("n", 1)], old("old", "n/0").profiled(GIB, GIB), a_job("new").created(10))
    assert found.preemptions["old"].action is PreemptionAction.EVICT


def test_the_preemptor_of_a_paused_job_starts_beside_it() -> None:
    paused = old("old", "n/0").profiled(10 * GIB, 5 * GIB).runs_on("n/0", state=JobState.PAUSED)
    found = planned([with_pausing()], paused, a_job("new").profiled(20 * GIB, 10 * GIB).created(10))
    assert set(found.starts) == {"new"}
    assert found.waiting["old"].code is WaitingCode.GPUS_BUSY
    assert "paused" in found.waiting["old"].message


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.OFFLOADED])
def test_a_paused_job_goes_on_where_it_is_when_the_turns_are_free(state: JobState) -> None:
    found = planned([with_pausing()], old("old", "n/0").runs_on("n/0", state=state))
    assert found.resumes == ("old",)
    assert not found.waiting


def test_an_offloaded_job_does_not_come_back_into_memory_that_is_taken() -> None:
    paused = old("old", "n/0").profiled(25 * GIB, 5 * GIB).runs_on("n/0", state=JobState.OFFLOADED)
    other = a_job("other").share(10).profiled(20 * GIB, GIB).runs_on("n/0")
    other = JobBuilder(replace(other.made, demand=replace(other.made.demand, share_percent=100)))
    found = planned([with_pausing()], paused, other)
    assert not found.resumes


def test_a_paused_job_is_evicted_when_its_ids_are_needed() -> None:
    paused = old("paused", "n/0").profiled(GIB, GIB).runs_on("n/0", state=JobState.PAUSED)
    running = old("running", "n/0").profiled(GIB, GIB)
    new = a_job("new").profiled(GIB, GIB).created(10)
    found = planned([with_pausing()], paused, running, new)
    depths = {key: preemption.action for key, preemption in found.preemptions.items()}
    assert depths == {"running": PreemptionAction.EVICT}, (
        "the last in the order; the paused one could not go on beside the new"
    )


def test_who_wants_a_gpu_alone_gets_it_where_there_is_room_for_paused_ones() -> None:
    found = planned(
        [with_pausing()], a_job("alone").needs(exclusive=True), a_job("other").share(10).created(10)
    )
    assert set(found.starts) == {"alone"}
    assert found.starts["alone"][0].share_percent == 100


@pytest.mark.parametrize("state", [JobState.PAUSING, JobState.OFFLOADING])
def test_a_job_about_to_be_paused_holds_all_that_it_has_until_it_is(state: JobState) -> None:
    victim = old("old", "n/0").profiled(10 * GIB, 5 * GIB).runs_on("n/0", state=state)
    new = a_job("new").profiled(20 * GIB, 10 * GIB).created(10)
    found = planned([with_pausing()], victim, new, a_job("next").created(20))
    assert not found.starts
    assert not found.preemptions, "what is under way is not ordered a second time"
    assert found.waiting["new"].code is WaitingCode.AWAITING_RELEASE
    assert found.waiting["new"].blockers == ("old",)
    assert "old" not in {*found.keeps, *found.waiting, *found.resumes}


def test_what_a_job_keeps_that_is_about_to_be_paused_is_not_promised() -> None:
    victim = old("old", "n/0").profiled(25 * GIB, 5 * GIB)
    new = a_job("new").profiled(20 * GIB, 10 * GIB).created(10)
    pausing = planned([with_pausing()], victim.runs_on("n/0", state=JobState.PAUSING), new)
    assert pausing.waiting["new"].code is not WaitingCode.AWAITING_RELEASE
    offloading = planned([with_pausing()], victim.runs_on("n/0", state=JobState.OFFLOADING), new)
    assert offloading.waiting["new"].code is WaitingCode.AWAITING_RELEASE


def test_a_job_that_cannot_be_paused_is_evicted() -> None:
    unable = JobBuilder(replace(old("old", "n/0").profiled(GIB, GIB).made, pausable=False))
    found = planned([with_pausing()], unable, a_job("new").profiled(GIB, GIB).created(10))
    assert found.preemptions["old"].action is PreemptionAction.EVICT


def paused(name: str, *gpus: str, persistent: int = 10) -> JobBuilder:
    return old(name, *gpus).profiled(persistent * GIB, 5 * GIB).runs_on(*gpus, state=JobState.PAUSED)


class TestGoingFurther:
    """A paused job whose memory another job needs."""

    runs = a_job("runs").share(50).profiled(5 * GIB, GIB).created(10).runs_on("n/0")
    comer = a_job("comer").share(50).profiled(18 * GIB, GIB).created(20)

    def test_its_memory_goes_to_the_host_when_that_is_what_lacks(self) -> None:
        found = planned([with_pausing()], paused("old", "n/0", persistent=20), self.runs, self.comer)
        assert {key: each.action for key, each in found.preemptions.items()} == {
            "old": PreemptionAction.OFFLOAD
        }
        assert found.preemptions["old"].preemptor == "comer"
        assert found.waiting["comer"].code is WaitingCode.AWAITING_PREEMPTION

    def test_who_got_its_turns_starts_when_its_memory_is_on_the_host(self) -> None:
        offloaded = paused("old", "n/0", persistent=20).runs_on("n/0", state=JobState.OFFLOADED)
        assert set(planned([with_pausing()], offloaded, self.runs, self.comer).starts) == {"comer"}

    def test_it_ends_when_its_place_is_what_lacks(self) -> None:
        half = (
            JobBuilder(paused("half", "n/0", persistent=1).made)
            .share(50)
            .runs_on("n/0", state=JobState.PAUSED)
        )
        found = planned([with_pausing()], paused("old", "n/0", persistent=1), half, self.runs, self.comer)
        assert {key: each.action for key, each in found.preemptions.items()} == {
            "old": PreemptionAction.EVICT
        }

    def test_it_ends_when_its_client_cannot_move_it(self) -> None:
        unable = JobBuilder(replace(paused("old", "n/0", persistent=20).made, pausable=False))
        found = planned([with_pausing()], unable, self.runs, self.comer)
        assert found.preemptions["old"].action is PreemptionAction.EVICT

    def test_only_the_difference_is_paid(self) -> None:
        costs = LowestFirst(moved_seconds_per_gib=1.0)
        running, aside = old("old", "n/0").made, paused("old", "n/0").made
        offload = [costs.cost_seconds(job, PreemptionAction.OFFLOAD, 8 * GIB) for job in (running, aside)]
        assert offload == [8.0 + costs.pause_seconds, 8.0]
        assert costs.cost_seconds(aside, PreemptionAction.EVICT, 8 * GIB) < costs.cost_seconds(
            running, PreemptionAction.EVICT, 8 * GIB
        )


def test_the_cheapest_depth_is_taken_that_is_enough() -> None:
    victim = old("old", "n/0").profiled(25 * GIB, 5 * GIB)
    new = a_job("new").profiled(20 * GIB, 10 * GIB).created(10)
    for per_gib, action, cost_seconds in (
        (1.0, PreemptionAction.OFFLOAD, 25.2),
        (3.0, PreemptionAction.EVICT, 50.0),
    ):
        by = policies(
            order="tiresias-las",
            preemption_options={"min_run_seconds": 0, "moved_seconds_per_gib": per_gib},
        )
        found = planned([with_pausing()], victim, new, by=by).preemptions["old"]
        assert found.action is action
        assert found.cost_seconds == pytest.approx(cost_seconds)


@pytest.mark.parametrize(
    ("measured", "action", "cost_seconds"),
    [
        ((None, None), PreemptionAction.OFFLOAD, 5.2),
        ((1.0, None), PreemptionAction.OFFLOAD, 25.2),
        ((0.1, 1.0), PreemptionAction.OFFLOAD, 25.2),
        ((3.0, 0.1), PreemptionAction.EVICT, 50.0),
    ],
    ids=["nothing", "one of two GPUs", "the slower of two", "slower than an eviction"],
)
def test_what_nodes_measured_of_moves_decides(
    measured: tuple[float | None, float | None], action: PreemptionAction, cost_seconds: float
) -> None:
    node = with_pausing(2)
    gpus = tuple(
        replace(gpu, moved_seconds_per_gib=each) for gpu, each in zip(node.gpus, measured, strict=True)
    )
    victim = old("old", "n/0", "n/1").needs(2).profiled(25 * GIB, 5 * GIB).runs_on("n/0", "n/1")
    new = a_job("new").needs(2).profiled(20 * GIB, 10 * GIB).created(10)
    found = planned([replace(node, gpus=gpus)], victim, new).preemptions["old"]
    assert found.action is action
    assert found.cost_seconds == pytest.approx(cost_seconds)


def test_of_several_victims_each_goes_no_further_than_it_takes() -> None:
    small = old("small", "n/0").profiled(2 * GIB, GIB)
    large = old("large", "n/1").profiled(30 * GIB, GIB)
    new = a_job("new").needs(2).profiled(20 * GIB, 10 * GIB).created(10)
    found = planned([with_pausing(2)], small, large, new)
    assert {key: each.action for key, each in found.preemptions.items()} == {
        "small": PreemptionAction.PAUSE,
        "large": PreemptionAction.OFFLOAD,
    }


@settings(max_examples=examples(60))
@given(
    persistent=st.lists(st.integers(0, 30), min_size=1, max_size=4),
    states=st.lists(st.sampled_from([JobState.RUNNING, JobState.PAUSED, JobState.OFFLOADED]), min_size=4),
    comer=st.integers(1, 30),
)
def test_nobody_could_have_gone_less_far(persistent: list[int], states: list[JobState], comer: int) -> None:
    """With a milder action for any one of the victims the newcomer would not start."""
    jobs = {
        f"old{at}": old(f"old{at}", f"n/{at}").profiled(size * GIB, GIB).runs_on(f"n/{at}", state=states[at])
        for at, size in enumerate(persistent)
    }
    new = a_job("new").needs(len(jobs)).profiled(comer * GIB, GIB).created(10)
    nodes = [with_pausing(len(jobs))]
    found = planned(nodes, *jobs.values(), new)
    done = {
        key: jobs[key].made
        if key not in found.preemptions
        else after_preemption(jobs[key], found.preemptions[key].action)
        for key in jobs
    }
    if found.preemptions:
        assert "new" in planned(nodes, *(JobBuilder(job) for job in done.values()), new).starts
    for key, preemption in found.preemptions.items():
        less_far = {
            PreemptionAction.EVICT: PreemptionAction.OFFLOAD,
            PreemptionAction.OFFLOAD: PreemptionAction.PAUSE,
            PreemptionAction.PAUSE: None,
        }[preemption.action]
        less = jobs[key].made if less_far is None else after_preemption(jobs[key], less_far)
        others = [JobBuilder(job) for other, job in done.items() if other != key]
        assert "new" not in planned(nodes, JobBuilder(less), *others, new).starts


def after_preemption(job: JobBuilder, depth: PreemptionAction) -> Job:
    """A job after this preemption action; one that has ended is elsewhere, and holds nothing."""
    if depth is PreemptionAction.EVICT:
        return replace(job.made, state=JobState.WAITING, placement=(), created_seconds=100.0)
    return replace(job.made, state=JobState.PAUSED if depth is PreemptionAction.PAUSE else JobState.OFFLOADED)


@pytest.mark.parametrize("state", [JobState.PAUSED, JobState.OFFLOADED])
@pytest.mark.parametrize("gpus", [("gone/0",), ("gone/0", "n/0")], ids=["its only one", "one of two"])
def test_a_paused_job_whose_gpu_has_left_the_cluster_stays_paused(
    state: JobState, gpus: tuple[str, ...]
) -> None:
    paused = a_job("paused").needs(len(gpus)).runs_on(*gpus, state=state)
    found = planned([a_node("n", 1)], paused)
    assert not found.resumes
    assert "paused" in found.waiting


def with_unsaved_work(job: JobBuilder, seconds: float = 900.0) -> JobBuilder:
    return JobBuilder(replace(job.made, unsaved_seconds=seconds))


def test_a_job_with_much_unsaved_work_is_offloaded_or_no_victim() -> None:
    new = a_job("new").profiled(20 * GIB, 10 * GIB).created(10)
    long = with_unsaved_work(old("long", "n/0").profiled(25 * GIB, 5 * GIB))
    assert planned([with_pausing()], long, new).preemptions["long"].action is PreemptionAction.OFFLOAD
    assert not planned([a_node("n", 1)], long, new).preemptions
    cannot_pause = JobBuilder(replace(long.made, pausable=False))
    assert not planned([with_pausing()], cannot_pause, new).preemptions
    saved = with_unsaved_work(long, 60.0)
    assert planned([a_node("n", 1)], saved, new).preemptions["long"].action is PreemptionAction.EVICT


def test_a_job_that_starts_over_is_evicted_only_for_a_higher_priority() -> None:
    long = old("long", "n/0")
    long = JobBuilder(replace(long.made, starts_over=True))
    new = a_job("new").created(10)
    assert not planned([a_node("n", 1)], long, new).preemptions
    urgent = JobBuilder(replace(new.made, priority=5))
    assert planned([a_node("n", 1)], long, urgent).preemptions["long"].action is PreemptionAction.EVICT
