"""A job that loses more than its bound by sharing gets its GPU back. Both jobs together do more work than one in all cases here."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.api.job_names import sentence_for
from laneway.scheduling import Job, JobState, PreemptionAction, PreemptionReason, Profile, Scheduler
from laneway.scheduling.config.registry import policies
from laneway.scheduling.model.snapshot import StageSeconds

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node

BOUND = 0.2


def does(name: str, gpu: float = 0.5, since: float = 0.0, bound: float = BOUND) -> JobBuilder:
    """A job that runs on n/0, of a template of its own, as a node measures it: the part of an iteration's second on the GPU."""
    profile = Profile(0, 0, iteration_seconds=1.0, stages=StageSeconds(0.0, 0.0, gpu, 0.0))
    job = a_job(name).needs(max_slowdown_ratio=bound).created(since).runs_on("n/0", since=since)
    return JobBuilder(replace(job.made, profile=profile, template=name))


OLD, NEW = does("old"), does("new", since=500.0)


def cluster(*jobs: JobBuilder, gpus: int = 1) -> Scheduler:
    by = policies(order="fifo", order_options={"strict": False}, joining={})
    scheduler = Scheduler([a_node("n", gpus, percent=400)], by)
    for job in jobs:
        scheduler.observe(job.made)
    return scheduler


def measured(scheduler: Scheduler, **ratios: float) -> None:
    for key, ratio in ratios.items():
        scheduler.report_speed(key, ratio, frozenset(ratios) - {key})


def separated(scheduler: Scheduler, now: float = NOW) -> list[str]:
    found = scheduler.decide(now).preemptions
    assert all(each.reason is PreemptionReason.SEPARATED for each in found.values())
    return sorted(found)


def waits(scheduler: Scheduler, job: JobBuilder) -> Job:
    waiting = replace(job.made, state=JobState.WAITING, placement=(), started_seconds=None)
    scheduler.observe(waiting)
    return waiting


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [(0.85, 0.85, []), (0.7, 0.9, ["new"]), (0.7, 0.7, ["new"]), (0.9, 0.7, [])],
    ids=["nobody", "the one that was there", "both", "the one that came"],
)
def test_who_came_last_leaves_where_one_that_was_there_loses_too_much(
    old: float, new: float, want: list[str]
) -> None:
    scheduler = cluster(OLD, NEW)
    measured(scheduler, old=old, new=new)
    assert separated(scheduler) == want


def test_a_single_slow_minute_separates_nobody_that_gets_on() -> None:
    scheduler = cluster(OLD, NEW)
    for minute in range(5):
        measured(scheduler, old=0.9 - minute / 1000, new=0.9)
        assert separated(scheduler, NOW + 60 * minute) == []
    measured(scheduler, old=0.5, new=0.9)
    assert separated(scheduler, NOW + 300) == []
    for minute in range(6, 10):
        measured(scheduler, old=0.5 + minute / 1000, new=0.9)
    assert separated(scheduler, NOW + 600) == ["new"]


def test_its_minimum_run_time_does_not_keep_who_joined() -> None:
    scheduler = cluster(OLD, does("new", since=NOW - 100))
    measured(scheduler, old=0.7, new=0.9)
    assert separated(scheduler) == ["new"]


def test_the_message_has_the_figures() -> None:
    scheduler = cluster(OLD, NEW)
    measured(scheduler, old=0.7, new=0.9)
    assert str(scheduler.decide(NOW).preemptions["new"].message) == (
        "Shared its GPUs with old, which was measured at 70% of its speed alone and is to keep 80% (maxSlowdownPercent 20)."
    )


def test_a_job_is_not_told_the_speed_of_one_of_another_namespace() -> None:
    scheduler = cluster(does("us/old"), does("rivals/new", since=500.0))
    measured(scheduler, **{"us/old": 0.7, "rivals/new": 0.9})
    message = scheduler.decide(NOW).preemptions["rivals/new"].message
    assert sentence_for(message, "rivals") == (
        "Shared its GPUs with a job of another namespace, which was measured to lose more of its speed than its maxSlowdownPercent allows."
    )


def test_while_one_leaves_nobody_else_does() -> None:
    third = does("third", gpu=0.1, since=700.0)
    scheduler = cluster(OLD, NEW, third)
    measured(scheduler, old=0.6, new=0.9, third=0.9)
    assert separated(scheduler) == ["third"]
    scheduler.observe(replace(third.made, state=JobState.TERMINATING))
    measured(scheduler, old=0.61, new=0.91, third=0.91)
    assert separated(scheduler, NOW + 1) == []


def test_who_left_does_not_come_back_beside_the_same_job_and_may_join_another() -> None:
    scheduler = cluster(OLD, NEW)
    measured(scheduler, old=0.7, new=0.9)
    assert separated(scheduler) == ["new"]
    waits(scheduler, NEW)
    assert not scheduler.decide(NOW + 1).starts
    scheduler.forget("old")
    scheduler.observe(does("other").made)
    assert "new" in scheduler.decide(NOW + 2).starts, "nobody knows yet how fast they are together"


def test_one_that_was_measured_too_slow_for_its_bound_joins_where_the_bound_allows_it() -> None:
    scheduler = cluster(does("old", bound=0.4), NEW)
    measured(scheduler, old=0.7, new=0.9)
    assert separated(scheduler) == []
    scheduler.forget("new")
    waits(scheduler, JobBuilder(replace(does("next").made, template="new")))
    assert "next" in scheduler.decide(NOW + 1).starts


def test_a_job_of_a_higher_priority_class_does_not_leave_for_another() -> None:
    scheduler = cluster(OLD, NEW.priority(5))
    measured(scheduler, old=0.7, new=0.9)
    assert separated(scheduler) == []


def test_who_came_last_and_loses_too_much_leaves_once_gpus_of_its_own_are_free() -> None:
    other = does("holds", gpu=1.0, bound=0.0).runs_on("n/1")
    scheduler = cluster(OLD, NEW, other, gpus=2)
    measured(scheduler, old=0.9, new=0.7)
    assert separated(scheduler) == [], "it would wait"
    scheduler.forget("holds")
    found = scheduler.decide(NOW + 1).preemptions
    assert list(found) == ["new"]
    assert str(found["new"].message).endswith("GPUs of its own are free.")


def test_nobody_leaves_a_place_that_another_job_waits_for() -> None:
    scheduler = cluster(OLD, NEW, gpus=2)
    scheduler.observe(a_job("gang").needs(3).made)
    measured(scheduler, old=0.9, new=0.7)
    assert separated(scheduler) == []


def test_who_may_not_be_preempted_stays_and_who_was_there_goes_to_a_gpu_of_its_own() -> None:
    scheduler = cluster(OLD, NEW.never_preempted())
    measured(scheduler, old=0.7, new=0.9)
    assert separated(scheduler) == []
    scheduler.set_nodes([a_node("n", 2, percent=400)])
    assert separated(scheduler, NOW + 1) == ["old"]


def test_who_came_last_saves_first_within_two_hours() -> None:
    unsaved = JobBuilder(replace(NEW.made, unsaved_seconds=5000.0, as_of_seconds=NOW))
    scheduler = cluster(OLD, unsaved)
    measured(scheduler, old=0.7, new=0.9)
    assert separated(scheduler) == []
    assert scheduler.next_decision_seconds(NOW) is not None
    scheduler.observe(replace(unsaved.made, unsaved_seconds=0.0))
    assert separated(scheduler, NOW + 1) == ["new"]


@pytest.mark.parametrize(("since", "want"), [(NOW - 100, ["new"]), (NOW - 700, [])])
def test_one_that_starts_over_each_time_leaves_while_it_has_little_to_lose(
    since: float, want: list[str]
) -> None:
    scheduler = cluster(OLD, JobBuilder(replace(does("new", since=since).made, starts_over=True)))
    measured(scheduler, old=0.6, new=0.9)
    assert separated(scheduler) == want


@pytest.mark.parametrize("starts_over", [False, True])
def test_one_that_would_lose_all_of_its_work_does_not_try(starts_over: bool) -> None:
    """Like one that may not be preempted: it could hardly leave again."""
    scheduler = cluster(OLD)
    waits(scheduler, JobBuilder(replace(does("new", gpu=0.5).made, starts_over=starts_over)))
    assert ("new" in scheduler.decide(NOW).starts) is not starts_over


@pytest.mark.parametrize(("restarts", "tries"), [(7, True), (8, False)])
def test_one_that_was_restarted_often_does_not_try(restarts: int, tries: bool) -> None:
    """It is not stopped once for each template beside which it is too slow."""
    scheduler = cluster(OLD)
    waits(scheduler, JobBuilder(replace(does("new", gpu=0.5).made, restarts=restarts)))
    assert ("new" in scheduler.decide(NOW).starts) is tries


def test_of_three_one_leaves_at_a_time() -> None:
    third = does("third", gpu=0.1, since=700.0)
    scheduler = cluster(OLD, NEW, third)
    measured(scheduler, old=0.6, new=0.9, third=0.9)
    assert separated(scheduler) == ["third"]
    waits(scheduler, third)
    measured(scheduler, old=0.7, new=0.9)
    assert separated(scheduler, NOW + 60) == ["new"]


def test_shares_that_a_gpu_has_are_separated_by_nobody() -> None:
    halves = [
        JobBuilder(replace(each.made, demand=replace(each.made.demand, share_percent=50)))
        for each in (OLD, NEW)
    ]
    scheduler = cluster(*(half.runs_on("n/0") for half in halves))
    measured(scheduler, old=0.3, new=0.3)
    assert separated(scheduler) == []


def test_a_paused_job_resumes_beside_another_only_where_it_may_join_it() -> None:
    paused = does("paused", gpu=0.9, bound=0.0).runs_on("n/0", state=JobState.PAUSED)
    scheduler = cluster(does("runs", gpu=0.9), paused)
    assert scheduler.decide(NOW).resumes == []
    scheduler.forget("runs")
    assert scheduler.decide(NOW + 1).resumes == ["paused"]
    scheduler = cluster(does("runs", gpu=0.3), does("paused", gpu=0.3).runs_on("n/0", state=JobState.PAUSED))
    assert scheduler.decide(NOW).resumes == ["paused"]


def test_a_job_of_a_higher_priority_class_pauses_one_that_nobody_may_join() -> None:
    node = a_node("n", 1, percent=800)
    node = replace(node, gpus=tuple(replace(gpu, active_percent=400) for gpu in node.gpus))
    scheduler = Scheduler([node], policies(joining={}, preemption_options={"min_run_seconds": 0}))
    scheduler.observe(does("runs", bound=0.0).made)
    urgent = does("urgent").priority(5)
    waits(scheduler, urgent)
    (preemption,) = scheduler.decide(NOW).preemptions.values()
    assert (preemption.job, preemption.action) == ("runs", PreemptionAction.PAUSE)


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(0.02, 1.0), st.floats(0.02, 1.0), st.floats(0.0, 1.0))
def test_after_one_round_nobody_that_was_there_first_loses_more_than_its_bound(
    old: float, new: float, bound: float
) -> None:
    scheduler = cluster(does("old", bound=bound), does("new", since=500.0, bound=1.0))
    measured(scheduler, old=old, new=new)
    left = separated(scheduler)
    assert left or old >= 1 - bound - 1e-9


def test_the_first_jobs_of_two_templates_share_the_only_gpu_once_each_was_measured_there_alone() -> None:
    node = a_node("n", 1, percent=800)
    node = replace(node, gpus=tuple(replace(gpu, active_percent=400) for gpu in node.gpus))
    by = policies(
        order="tiresias-las",
        order_options={"thresholds_gpu_seconds": (600.0, 10_000.0)},
        joining={},
        preemption_options={"min_run_seconds": 500},
    )
    scheduler = Scheduler([node], by)
    old, unknown = does("old", gpu=0.3).served(900.0), replace(does("new", gpu=0.7).made, profile=None)
    waiting = replace(unknown, state=JobState.WAITING, placement=(), started_seconds=None)
    scheduler.observe(old.made)
    scheduler.observe(waiting)
    (preemption,) = scheduler.decide(NOW).preemptions.values()
    assert (preemption.job, preemption.action) == ("old", PreemptionAction.PAUSE)

    scheduler.observe(replace(old.made, state=JobState.PAUSED))
    assert scheduler.decide(NOW + 1).starts.keys() == {"new"}
    scheduler.observe(replace(unknown, started_seconds=NOW + 1))
    assert scheduler.decide(NOW + 2).resumes == []

    scheduler.observe(replace(does("new", gpu=0.7).made, started_seconds=NOW + 1))
    assert scheduler.decide(NOW + 60).resumes == ["old"]
