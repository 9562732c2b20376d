"""One job that cannot start holds nothing that it cannot use."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.scheduling import (
    GPU,
    Demand,
    ForeignTenant,
    Job,
    JobState,
    Node,
    Scheduler,
    WorkerPlacement,
    policies,
)
from laneway.simulator import make_nodes

from tests.support.workloads import DAY, HOUR, MINUTE, a_job, completion_seconds, simulated, stream

NOW = 100 * DAY


def on(node: Node, gpus: tuple[GPU, ...]) -> tuple[WorkerPlacement, ...]:
    return tuple(WorkerPlacement(number, node.name, (gpu.uuid,), 100) for number, gpu in enumerate(gpus))


@pytest.mark.parametrize("blocker", [{"preemptible": False}, {"priority": 10}])
@pytest.mark.parametrize("order", ["multilevel-las", "fifo"])
def test_a_job_pinned_to_a_full_node_holds_up_nobody_elsewhere(order: str, blocker: dict[str, int]) -> None:
    """100 nodes, 792 idle GPUs, 500 one-GPU jobs, and a job that has waited 31 days for the one full node."""
    nodes = make_nodes("100x8")
    full = nodes[0]
    scheduler = Scheduler(nodes, policies(order=order))
    holder = Job(
        "ns/holder",
        Demand(8),
        NOW - 40 * DAY,
        state=JobState.RUNNING,
        placement=on(full, full.gpus),
        started_seconds=NOW - 40 * DAY,
        **blocker,
    )
    scheduler.observe(holder)
    scheduler.avoid("ns/pinned", frozenset(node.name for node in nodes[1:]))
    scheduler.observe(Job("ns/pinned", Demand(1), NOW - 31 * DAY))
    for number in range(500):
        scheduler.observe(Job(f"ns/job-{number:03}", Demand(1), NOW - MINUTE))

    plan = scheduler.plan(NOW)

    assert len(plan.starts) == 500
    assert plan.waiting.keys() == {"ns/pinned"}
    assert not plan.preemptions


def test_a_blocked_gang_costs_small_jobs_nothing() -> None:
    """A gang of 16 waits for a job on one of 16 GPUs that nobody may preempt, and that runs for 60 days."""
    small = list(stream(0.5, 16, 20 * MINUTE, 3 * DAY))
    simulation = simulated(
        a_job("never", 60 * DAY, preemptible=False),
        a_job("gang", HOUR, gpus=16),
        *small,
        nodes="2x8",
        until_seconds=4 * DAY,
    )
    waits = [completion_seconds(simulation, job.key.removeprefix("ns/")) - 20 * MINUTE for job in small]
    assert sum(waits) / len(waits) < MINUTE
    assert simulation.runs["ns/never"].evictions == 0


def test_a_plain_pod_as_blocker_freezes_nobody() -> None:
    """A gang of the whole cluster never fits beside a plain pod; jobs that fit start."""
    nodes = list(make_nodes("2x8"))
    first = nodes[0].gpus[0]
    taken = replace(first, foreign=(ForeignTenant("ns/pod", 100),))
    nodes[0] = replace(nodes[0], gpus=(taken, *nodes[0].gpus[1:]))
    scheduler = Scheduler(nodes, policies())
    scheduler.observe(Job("ns/gang", Demand(16), NOW - 31 * DAY))
    for number in range(15):
        scheduler.observe(Job(f"ns/job-{number:02}", Demand(1), NOW - MINUTE))

    assert len(scheduler.plan(NOW).starts) == 15


def test_jobs_that_may_not_be_preempted_cannot_starve_a_gang() -> None:
    """All newcomers are ``preemption: Never``; together they need 80 % of the cluster."""
    never = stream(0.8, 8, 20 * MINUTE, 200 * HOUR, preemptible=False)
    simulation = simulated(a_job("gang", HOUR, gpus=8, submit=HOUR), *never, nodes="1x8", until_done="gang")
    assert completion_seconds(simulation, "gang") <= 3 * HOUR / (1 - 0.8)


def test_later_jobs_that_may_be_preempted_use_reserved_gpus() -> None:
    """A gang that goes first waits for a job that ends in a day; meanwhile its other GPUs are in use."""
    small = list(stream(0.6, 8, 20 * MINUTE, DAY, seed=3))
    simulation = simulated(
        a_job("never", DAY, preemptible=False),
        a_job("gang", HOUR, gpus=8, submit=MINUTE),
        *small,
        nodes="1x8",
    )
    assert completion_seconds(simulation, "gang") <= DAY + 3 * HOUR / (1 - 0.6)
    waits = [
        completion_seconds(simulation, job.key.removeprefix("ns/")) - 20 * MINUTE
        for job in small[: len(small) // 2]
    ]
    assert sum(waits) / len(waits) < 5 * MINUTE
