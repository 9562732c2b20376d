"""Jobs whose memory does not fit on a GPU together take turns there by offload, and none is evicted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.scheduling import JobState, PreemptionAction, Scheduler
from laneway.scheduling.config.registry import policies

from tests.unit.core.scheduling.builders import GIB, NOW, JobBuilder, a_job, a_node

QUEUES = (1000.0, 10_000.0)


def cluster(*jobs: JobBuilder, order: str = "tiresias-las") -> Scheduler:
    """One GPU of 40 GiB, with `sharing: lanes`."""
    node = a_node("n", 1, percent=800)
    node = replace(node, gpus=tuple(replace(gpu, active_percent=400) for gpu in node.gpus))
    options = {"thresholds_gpu_seconds": QUEUES} if order == "tiresias-las" else {}
    by = policies(order=order, order_options=options, joining={}, preemption_options={"min_run_seconds": 500})
    scheduler = Scheduler([node], by)
    for job in jobs:
        scheduler.observe(job.made)
    return scheduler


def large(name: str, served: float, state: JobState, since: float = 0.0, gib: int = 25) -> JobBuilder:
    """A job that holds n/0, and keeps much of the GPU's memory."""
    return a_job(name).served(served).profiled(gib * GIB, GIB).runs_on("n/0", state=state, since=since)


def test_an_offloaded_job_of_an_earlier_queue_goes_on_in_place_of_a_running_one() -> None:
    runs = large("runs", 5000, JobState.RUNNING)
    waits = large("waits", 10, JobState.OFFLOADED)
    scheduler = cluster(runs, waits)
    (preemption,) = scheduler.decide(NOW).preemptions.values()
    assert (preemption.job, preemption.action, preemption.preemptor) == (
        "runs",
        PreemptionAction.OFFLOAD,
        "waits",
    )
    scheduler.observe(replace(runs.made, state=JobState.OFFLOADED))
    assert scheduler.decide(NOW + 5).resumes == ["waits"]


@pytest.mark.parametrize(
    ("served", "since", "priority"),
    [(500, 0.0, 0), (5000, NOW - 100, 0), (5000, 0.0, 5)],
    ids=["of the same queue", "within its minimum run time", "of a higher priority class"],
)
def test_a_running_job_stays(served: float, since: float, priority: int) -> None:
    runs = large("runs", served, JobState.RUNNING, since).priority(priority)
    scheduler = cluster(runs, large("waits", 10, JobState.OFFLOADED))
    found = scheduler.decide(NOW)
    assert not found.preemptions
    assert not found.resumes


def test_nobody_is_evicted_for_a_job_that_could_wait_where_it_is() -> None:
    runs = large("runs", 5000, JobState.RUNNING)
    scheduler = cluster(
        JobBuilder(replace(runs.made, pausable=False)), large("waits", 10, JobState.OFFLOADED)
    )
    assert not scheduler.decide(NOW).preemptions


def test_where_memory_suffices_the_running_job_only_pauses() -> None:
    runs = large("runs", 5000, JobState.RUNNING, gib=10)
    scheduler = cluster(runs, large("waits", 10, JobState.PAUSED, gib=10))
    (preemption,) = scheduler.decide(NOW).preemptions.values()
    assert preemption.action is PreemptionAction.PAUSE


def test_orders_that_compare_more_than_queues_let_running_jobs_be() -> None:
    scheduler = cluster(
        large("runs", 5000, JobState.RUNNING), large("waits", 10, JobState.OFFLOADED), order="srtf"
    )
    assert not scheduler.decide(NOW).preemptions


def switched_off(*jobs: JobBuilder) -> Scheduler:
    """One GPU whose node offers 100 percent since `sharing: lanes` was switched off."""
    by = policies(order="fifo", order_options={"strict": False})
    scheduler = Scheduler([a_node("n", 1), a_node("other", 1)], by)
    for job in jobs:
        scheduler.observe(job.made)
    return scheduler


def test_paused_jobs_of_one_gpu_resume_one_after_another_once_sharing_is_off() -> None:
    """And no other job of the cluster has to wait for that."""
    first, second = (large(name, 10, JobState.PAUSED, gib=15) for name in ("a", "b"))
    scheduler = switched_off(first, second, a_job("elsewhere"))
    found = scheduler.decide(NOW)
    assert (found.resumes, list(found.starts)) == (["a"], ["elsewhere"])
    scheduler.observe(replace(first.made, state=JobState.RUNNING))
    assert scheduler.decide(NOW + 1).resumes == []
    scheduler.forget("a")
    assert scheduler.decide(NOW + 2).resumes == ["b"]


def test_a_paused_exclusive_job_from_before_the_switch_resumes() -> None:
    """It holds all shares that took turns before."""
    exclusive = large("a", 10, JobState.PAUSED)
    made = replace(exclusive.made, demand=replace(exclusive.made.demand, exclusive=True))
    made = replace(made, placement=tuple(replace(each, share_percent=400) for each in made.placement))
    assert switched_off(JobBuilder(made)).decide(NOW).resumes == ["a"]
