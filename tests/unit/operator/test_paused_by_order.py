"""A worker that somebody else than the operator paused: its job is paused, says why and by whom, and is not charged."""

from __future__ import annotations

from dataclasses import replace

import pytest
from laneway.operator.lifecycle import accounting, transitions
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.records.job_record import JobRecord
from laneway.scheduling import JobState, PreemptionAction

from tests.unit.operator.builders import (
    GIB,
    NOW,
    TIMEOUTS,
    a_gpu_node,
    a_job,
    a_pod,
    a_session,
    a_view,
    condition_of,
    reasons,
    reconciled_job_of,
)

BY_HAND = "paused by order (someone needs the GPU)"
LONG_AGO = NOW - 10 * TIMEOUTS.pause_seconds


def running(since: float = LONG_AGO) -> JobRecord:
    return a_job().placed("n1", at=since - 30).running(since=since).record


def seen(
    job: JobRecord,
    state: str = "Paused",
    message: str = BY_HAND,
    *,
    by_hand: bool = True,
    lane: int | None = 0,
    offloaded_bytes: int = 0,
) -> ReconciledJob:
    """The job, as its node reports its worker; `by_hand`: the order of somebody else is in the GPUNode."""
    pod = a_pod(job).running().record
    session = a_session(pod, state=state, lane=lane, message=message, offloadedBytes=offloaded_bytes)
    node = a_gpu_node("n1", sessions={0: [session]})
    orders = frozenset({pod.uid} if by_hand else ())
    return reconciled_job_of(job, pod, view=a_view(gpu_nodes=[replace(node, others_orders=orders)]))


def test_the_job_is_paused_says_why_and_is_charged_nothing() -> None:
    found = seen(running(since=NOW - 30))
    status = found.job.status
    assert (status.state, status.reason) == ("Paused", "PausedByOrder")
    assert condition_of(status, "Running") == ("False", "PausedByOrder")
    assert status.waiting is not None
    assert BY_HAND in status.waiting.message
    assert "kubectl laneway unpause NAME" in status.waiting.unblock
    assert reasons(found) == ["PausedByOrder"]
    assert found.state is JobState.RUNNING, "it holds its share"
    assert accounting.counted(status, NOW + 100).executed_milliseconds == 30_000
    again = seen(found.job)
    assert again.job.status is status
    assert again.events == (), "it is said once"


def test_the_job_runs_again_once_the_order_is_taken_back() -> None:
    paused = seen(running(since=NOW - 30)).job
    found = seen(paused, state="Waiting", message="", by_hand=False)
    status = found.job.status
    assert (status.state, status.reason, status.waiting) == ("Running", "", None)
    assert reasons(found) == ["Unpaused"]
    assert status.attempt == 1
    assert accounting.counted(status, NOW + 100).executed_milliseconds == 130_000


def test_an_order_at_the_nodes_shell_counts_as_well_and_stays_said() -> None:
    found = seen(running(), by_hand=False)
    assert found.job.status.reason == "PausedByOrder"
    assert seen(found.job, by_hand=False).job.status is found.job.status


def test_a_job_that_comes_back_from_a_preemption_is_not_taken_for_one_that_somebody_paused() -> None:
    job = a_job().placed("n1", at=NOW - 300).running(since=NOW - 200)
    job = job.after(
        transitions.asked_to_pause, PreemptionAction.PAUSE, "HigherPriority", "Preempted.", NOW - 100, ""
    )
    resumed = job.after(transitions.paused, NOW - 90).after(transitions.resumed, NOW - 1).record
    assert seen(resumed, by_hand=False).job.status.state == "Running"
    assert seen(resumed, by_hand=True).job.status.reason == "PausedByOrder"


RESTORES = "waits for GPU memory to restore 4 GiB from the host"
ON_HOST = 4 * GIB


def offloaded(message: str = "offloaded by order: 4 GiB are on the host") -> ReconciledJob:
    return seen(running(), state="Offloaded", message=message, lane=None, offloaded_bytes=ON_HOST)


@pytest.mark.parametrize("lane", [0, None])
@pytest.mark.parametrize(
    "message", [RESTORES, f"{RESTORES}, process 7 could not restore: pages freed by order of the kernel"]
)
def test_a_job_whose_order_to_offload_was_taken_back_waits_for_memory_until_it_is_restored(
    message: str, lane: int | None
) -> None:
    """The node's words are for people, and a client's are among them: the state and offloadedBytes say it."""
    before = offloaded().job
    assert before.status.reason == "PausedByOrder"
    found = seen(before, state="Waiting", message=message, lane=lane, offloaded_bytes=ON_HOST, by_hand=False)
    status = found.job.status
    assert (status.state, status.reason) == ("Waiting", "WaitingForLane")
    assert status.waiting is not None
    assert status.waiting.message == f"Worker 0 on n1 is offloaded: {message}."
    assert "Memory" in status.waiting.unblock, "no order is left that somebody could take back"
    assert status.service_counted_at is None
    assert seen(found.job, state="Waiting", message="", by_hand=False).job.status.state == "Running"


@pytest.mark.parametrize("message", ["", "offloaded by order: 4 GiB are on the host", "in other words"])
def test_a_job_is_paused_while_an_order_keeps_its_memory_on_the_host_whatever_the_node_says(
    message: str,
) -> None:
    assert offloaded(message).job.status.reason == "PausedByOrder"


@pytest.mark.parametrize("lane", [0, None])
def test_a_job_that_comes_back_from_a_preemption_late_is_not_paused_by_order(lane: int | None) -> None:
    found = seen(
        running(), state="Waiting", message=RESTORES, lane=lane, offloaded_bytes=ON_HOST, by_hand=False
    )
    assert found.job.status.state == "Running"


def test_the_engine_is_woken_once_the_memory_of_a_worker_is_restored() -> None:
    pod = a_pod(running()).running().record
    nodes = [
        a_gpu_node("n1", sessions={0: [a_session(pod, state="Waiting", lane=0, offloadedBytes=on_host)]})
        for on_host in (ON_HOST, ON_HOST // 2, 0)
    ]
    assert nodes[0].decisive == nodes[1].decisive != nodes[2].decisive


def test_a_gang_is_paused_while_one_of_its_workers_is() -> None:
    job = a_job().spec(workers=2).placed("n1", "n2", at=LONG_AGO - 30).running(since=LONG_AGO).record
    pods = [a_pod(job, rank=rank).running().record for rank in (0, 1)]
    nodes = [
        a_gpu_node("n1", sessions={0: [a_session(pods[0], lane=0)]}),
        a_gpu_node("n2", sessions={0: [a_session(pods[1], state="Offloaded", message="offloaded by order")]}),
    ]
    status = reconciled_job_of(job, *pods, view=a_view(gpu_nodes=nodes)).job.status
    assert (status.state, status.reason) == ("Paused", "PausedByOrder")
    assert status.waiting is not None
    assert status.waiting.message == "Worker 1 on n2 is offloaded by order."
