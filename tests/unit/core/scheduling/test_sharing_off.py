"""Nodes go from `sharing: lanes` to `sharing: off` under jobs that share GPUs or are paused there."""

from __future__ import annotations

from dataclasses import replace

from laneway.scheduling import JobState, PreemptionAction, Scheduler
from laneway.scheduling.config.registry import policies

from tests.unit.core.scheduling.builders import GIB, NOW, JobBuilder, a_job, a_node


def cluster(*jobs: JobBuilder, gpus: int = 1) -> Scheduler:
    """One node whose GPUs offer 100 percent, although its jobs hold more."""
    node = a_node("n", gpus)
    node = replace(node, gpus=tuple(replace(gpu, active_percent=100) for gpu in node.gpus))
    options = {"thresholds_gpu_seconds": (1000.0, 10_000.0)}
    by = policies(order="tiresias-las", order_options=options, preemption_options={"min_run_seconds": 500})
    scheduler = Scheduler([node], by)
    for job in jobs:
        scheduler.observe(job.made)
    return scheduler


def placed(name: str, state: JobState = JobState.RUNNING, served: float = 5000) -> JobBuilder:
    return a_job(name).served(served).profiled(5 * GIB, GIB).runs_on("n/0", state=state)


def test_jobs_that_share_a_gpu_run_on_and_others_take_idle_gpus() -> None:
    scheduler = cluster(placed("a"), placed("b"), a_job("new").waiting(NOW - 1), gpus=2)
    found = scheduler.decide(NOW)
    assert not found.preemptions
    assert [worker.gpus for worker in found.starts["new"]] == [("n/1",)]


def test_a_preemptor_evicts_all_jobs_of_a_shared_gpu() -> None:
    found = cluster(placed("a"), placed("b"), a_job("new").waiting(NOW - 1)).decide(NOW)
    assert {each.job: each.action for each in found.preemptions.values()} == {
        "a": PreemptionAction.EVICT,
        "b": PreemptionAction.EVICT,
    }


def test_of_two_paused_jobs_one_resumes() -> None:
    found = cluster(placed("a", JobState.PAUSED), placed("b", JobState.PAUSED)).decide(NOW)
    assert found.resumes == ["a"]
    assert not found.preemptions


def test_no_running_job_is_evicted_for_a_paused_one() -> None:
    found = cluster(placed("runs"), placed("waits", JobState.OFFLOADED, served=10)).decide(NOW)
    assert not found.preemptions
    assert not found.resumes
