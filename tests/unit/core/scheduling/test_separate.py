"""Jobs that share GPUs, and turn out to be too slow together, are separated once they were measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from laneway.scheduling import Job, JobState, PreemptionReason, Profile, Scheduler
from laneway.scheduling.config.registry import policies
from laneway.scheduling.model.shared_speeds import SAME_RATIO
from laneway.scheduling.model.snapshot import StageSeconds
from laneway.scheduling.placement.lanes import Lanes

from tests.support.property_examples import examples
from tests.unit.core.scheduling.builders import NOW, JobBuilder, a_job, a_node


def does(job: JobBuilder, gpu: float, template: str = "") -> JobBuilder:
    """A job as a node measures it: the part of an iteration's second on the GPU."""
    profile = Profile(0, 0, iteration_seconds=1.0, stages=StageSeconds(0.0, 0.0, gpu, 0.0))
    return JobBuilder(replace(job.made, profile=profile, template=template or job.made.key))


READS = does(a_job("reads"), 0.1).runs_on("n/0")
COMPUTES = does(a_job("computes").created(1), 0.9).runs_on("n/0")


def cluster(*jobs: JobBuilder, gpus: int = 1, min_run_seconds: float = 0.0) -> Scheduler:
    by = policies(
        order="fifo",
        order_options={"strict": False},
        placement="lanes",
        preemption_options={"min_run_seconds": min_run_seconds},
    )
    scheduler = Scheduler([a_node("n", gpus, percent=400)], by)
    for job in jobs:
        scheduler.observe(job.made)
    return scheduler


def measured(scheduler: Scheduler, reads: float, computes: float) -> None:
    scheduler.report_speed("reads", reads, frozenset({"computes"}))
    scheduler.report_speed("computes", computes, frozenset({"reads"}))


def evicted(scheduler: Scheduler, now: float = NOW) -> list[str]:
    found = scheduler.decide(now).preemptions
    assert all(each.reason is PreemptionReason.SEPARATED for each in found.values())
    return sorted(found)


def leave(scheduler: Scheduler, job: Job) -> None:
    scheduler.observe(replace(job, state=JobState.WAITING, placement=()))


def test_jobs_that_gain_stay() -> None:
    scheduler = cluster(READS, COMPUTES)
    measured(scheduler, 0.8, 0.9)
    assert evicted(scheduler) == []


def test_one_of_two_that_are_slower_together_leaves_and_does_not_come_back() -> None:
    scheduler = cluster(READS, COMPUTES)
    measured(scheduler, 0.4, 0.5)
    (key,) = evicted(scheduler)
    job = next(each.made for each in (READS, COMPUTES) if each.made.key == key)
    leave(scheduler, job)
    found = scheduler.plan(NOW + 1)
    assert not found.starts
    assert key in found.waiting


def test_the_message_has_the_gain_and_the_option_that_bounds_it() -> None:
    scheduler = cluster(READS, COMPUTES)
    measured(scheduler, 0.4, 0.5)
    (preemption,) = scheduler.decide(NOW).preemptions.values()
    (other,) = {"reads", "computes"} - {preemption.job}
    assert not isinstance(preemption.message, str), "a job of another namespace is not named"
    assert preemption.message.jobs == (other,)
    assert str(preemption.message) == (
        f"Sharing GPUs with {other} changed the work done on each by -10.0% of a job's work alone; at least 0.0% is required "
        "(scheduling.joining.keepGainRatio)."
    )


@pytest.mark.parametrize(("reads", "computes"), [(0.4, 0.5), (0.5, 0.4), (0.4, 0.4), (0.3, 0.6), (0.6, 0.3)])
@pytest.mark.parametrize("first", ["reads", "computes"])
def test_of_two_that_gain_as_little_the_last_in_order_leaves(
    first: str, reads: float, computes: float
) -> None:
    jobs = [each.priority(5) if each.made.key == first else each for each in (READS, COMPUTES)]
    scheduler = cluster(*jobs)
    measured(scheduler, reads, computes)
    assert evicted(scheduler) == [next(each.made.key for each in jobs if each.made.key != first)]


def test_it_goes_to_another_gpu() -> None:
    scheduler = cluster(READS, COMPUTES, gpus=2)
    measured(scheduler, 0.4, 0.5)
    (key,) = evicted(scheduler)
    leave(scheduler, next(each.made for each in (READS, COMPUTES) if each.made.key == key))
    (worker,) = scheduler.decide(NOW + 1).starts[key]
    assert worker.gpus == ("n/1",)


def test_others_of_their_templates_do_not_join_either() -> None:
    scheduler = cluster(READS, COMPUTES, gpus=2)
    measured(scheduler, 0.4, 0.5)
    (key,) = evicted(scheduler)
    scheduler.forget(key)
    scheduler.observe(does(a_job("other").created(2), 0.9, "other").runs_on("n/1").made)
    gone = next(each.made for each in (READS, COMPUTES) if each.made.key == key)
    scheduler.observe(replace(gone, key="next", state=JobState.WAITING, placement=(), created_seconds=3.0))
    starts = scheduler.decide(NOW + 1).starts
    assert all(worker.gpus != ("n/0",) for worker in starts.get("next", ()))


def test_what_is_too_slow_on_one_gpu_model_is_tried_on_another() -> None:
    scheduler = cluster(READS, COMPUTES)
    measured(scheduler, 0.4, 0.5)
    (key,) = evicted(scheduler)
    leave(scheduler, next(each.made for each in (READS, COMPUTES) if each.made.key == key))
    large = a_node("large", 1, model="H100", percent=400)
    scheduler.set_nodes([a_node("n", 1, percent=400), large])
    other = {"reads": "computes", "computes": "reads"}[key]
    template = next(each.made for each in (READS, COMPUTES) if each.made.key == other)
    there = a_job("there").runs_on("large/0").made
    scheduler.observe(replace(template, key="there", placement=there.placement))
    (worker,) = scheduler.decide(NOW + 1).starts[key]
    assert worker.gpus == ("large/0",)


def test_a_job_leaves_only_after_its_minimum_run_time() -> None:
    reads, computes = (JobBuilder(replace(each.made, started_seconds=NOW)) for each in (READS, COMPUTES))
    scheduler = cluster(reads, computes, min_run_seconds=500.0)
    measured(scheduler, 0.4, 0.5)
    assert evicted(scheduler) == []
    assert evicted(scheduler, NOW + 499) == []
    due = scheduler.next_decision_seconds(NOW + 499)
    assert due is not None
    assert len(evicted(scheduler, due)) == 1


def test_who_was_there_first_does_not_leave_because_who_joined_is_protected() -> None:
    joined = JobBuilder(replace(COMPUTES.made, started_seconds=NOW))
    scheduler = cluster(READS, joined, min_run_seconds=500.0)
    measured(scheduler, 0.4, 0.5)
    assert evicted(scheduler) == []
    due = scheduler.next_decision_seconds(NOW)
    assert due == NOW + 500
    assert evicted(scheduler, due) == ["computes"]


def test_who_may_not_be_preempted_stays() -> None:
    scheduler = cluster(READS.never_preempted(), COMPUTES.never_preempted())
    measured(scheduler, 0.4, 0.5)
    assert evicted(scheduler) == []


def with_unsaved_work(job: JobBuilder, seconds: float = 5000.0) -> JobBuilder:
    return JobBuilder(replace(job.made, unsaved_seconds=seconds, as_of_seconds=NOW))


def test_who_would_lose_its_work_leaves_once_it_has_saved_and_nobody_before_it_in_its_place() -> None:
    scheduler = cluster(READS, with_unsaved_work(COMPUTES))
    measured(scheduler, 0.4, 0.5)
    assert evicted(scheduler) == []
    assert evicted(scheduler, NOW + 60) == []
    scheduler.observe(with_unsaved_work(COMPUTES, 0.0).made)
    assert evicted(scheduler, NOW + 61) == ["computes"]


def test_of_two_that_would_lose_their_work_neither_leaves() -> None:
    scheduler = cluster(with_unsaved_work(READS), with_unsaved_work(COMPUTES))
    measured(scheduler, 0.4, 0.5)
    assert evicted(scheduler) == []


def test_who_comes_after_a_job_that_would_lose_its_work_leaves() -> None:
    """Of three, the second gains least and has not saved; the first gains less than the last, which leaves."""
    before = does(a_job("before"), 0.5).priority(1).runs_on("n/0")
    jobs = (before, with_unsaved_work(READS), COMPUTES)
    scheduler = cluster(*jobs)
    for key, ratio in (("before", 0.3), ("reads", 0.2), ("computes", 0.3)):
        others = frozenset(each.made.key for each in jobs) - {key}
        scheduler.report_speed(key, ratio, others)
    assert evicted(scheduler) == ["computes"]


def test_who_never_resumes_does_not_keep_others_for_ever() -> None:
    starts_over = JobBuilder(replace(COMPUTES.made, starts_over=True))
    scheduler = cluster(READS, starts_over)
    measured(scheduler, 0.4, 0.5)
    assert evicted(scheduler) == ["reads"]


def test_who_never_saves_does_not_keep_others_for_ever() -> None:
    scheduler = cluster(READS, with_unsaved_work(COMPUTES))
    measured(scheduler, 0.4, 0.5)
    assert evicted(scheduler) == []
    assert evicted(scheduler, NOW + 2799) == []
    assert evicted(scheduler, NOW + 2800) == ["reads"], "the other one has not been evictable for two hours"


def test_a_speed_beside_other_jobs_than_now_does_not_count() -> None:
    scheduler = cluster(READS, COMPUTES)
    scheduler.report_speed("reads", 0.1, frozenset({"gone"}))
    scheduler.report_speed("computes", 0.1, frozenset())
    assert evicted(scheduler) == []


def test_one_measured_speed_of_two_is_not_enough() -> None:
    scheduler = cluster(READS, COMPUTES)
    scheduler.report_speed("reads", 0.1, frozenset({"computes"}))
    assert evicted(scheduler) == []
    scheduler.report_speed("computes", 0.1, frozenset({"reads"}))
    assert len(evicted(scheduler)) == 1


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(0.02, 1.0), st.floats(0.02, 1.0))
def test_after_they_were_measured_jobs_share_only_if_they_gain(reads: float, computes: float) -> None:
    scheduler = cluster(READS, COMPUTES)
    measured(scheduler, reads, computes)
    gain = reads + computes - 1 - Lanes().keep_gain_ratio
    assume(abs(gain) > 2 * SAME_RATIO)
    assert len(evicted(scheduler)) == (1 if gain < 0 else 0)
