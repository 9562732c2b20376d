"""Waiting counts only while a job may compete."""

from __future__ import annotations

import math
from dataclasses import replace

from laneway.scheduling import Demand, Job, JobState, Scheduler, WorkerPlacement, policies
from laneway.simulator import make_nodes

from tests.support.workloads import DAY

NOW = 100 * DAY


def busy() -> Scheduler:
    """8 GPUs with 8 jobs that have run for 40 days, and another 8 that wait for an hour."""
    (node,) = make_nodes("1x8")
    scheduler = Scheduler([node], policies())
    for number, gpu in enumerate(node.gpus):
        scheduler.observe(
            Job(
                f"ns/old-{number}",
                Demand(1),
                NOW - 40 * DAY,
                state=JobState.RUNNING,
                placement=(WorkerPlacement(0, node.name, (gpu.uuid,), 100),),
                started_seconds=NOW - 40 * DAY,
                executed_seconds=40 * DAY,
                attained_service_gpu_seconds=40 * DAY,
                as_of_seconds=NOW,
            )
        )
    return scheduler


def gang(**more: float) -> Job:
    """A gang of the whole cluster that has had as much service as the running jobs."""
    return Job(
        "ns/gang",
        Demand(8),
        NOW - 80 * DAY,
        executed_seconds=40 * DAY,
        attained_service_gpu_seconds=320 * DAY,
        **more,
    )


def test_a_job_that_was_suspended_for_a_month_has_not_waited() -> None:
    scheduler = busy()
    scheduler.observe(replace(gang(), suspended=True))
    assert not scheduler.plan(NOW - 1).preemptions
    scheduler.observe(gang(waiting_since_seconds=NOW))
    assert not scheduler.plan(NOW).preemptions


def test_a_job_that_its_quota_holds_back_does_not_wait() -> None:
    scheduler = busy()
    scheduler.observe(gang(waiting_since_seconds=math.inf))
    assert not scheduler.plan(NOW).preemptions
    assert scheduler.next_decision_seconds(NOW) is None


def test_a_job_that_could_run_has_waited() -> None:
    scheduler = busy()
    scheduler.observe(gang(waiting_since_seconds=NOW - 39 * DAY, waited_before_seconds=1000 * DAY))
    assert len(scheduler.plan(NOW).preemptions) == 8
