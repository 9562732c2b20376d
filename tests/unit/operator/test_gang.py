"""The result of a gang's attempt, case by case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from laneway.operator.lifecycle.gang import Attempt, Outcome, evaluate_attempt
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.node_record import NodeRecord
from laneway.operator.state.records.worker_pod import WorkerPod

from tests.unit.operator.builders import (
    NOW,
    TIMEOUTS,
    a_gpu_node,
    a_job,
    a_node,
    a_pod,
    a_session,
    a_view,
    context_of,
)

Pods = Callable[[JobRecord], list[WorkerPod]]


@dataclass(frozen=True)
class Case:
    """A gang of two, worker 0 on n1 and worker 1 on n2."""

    name: str
    pods: Pods
    want: Outcome
    want_reason: str
    want_message: str = ""
    want_avoid: tuple[str, ...] = ()
    placed: float = NOW - 10
    was_running: bool = False
    nodes: tuple[NodeRecord, ...] = (a_node("n1"), a_node("n2"))


CASES = [
    Case(
        "no pod was made yet",
        lambda job: [],
        Outcome.STARTING,
        "Starting",
        "0 of 2 workers run; the pod of worker 0 is yet to be made",
    ),
    Case(
        "one runs, the other pulls its image",
        lambda job: [
            a_pod(job, 0).running().record,
            a_pod(job, 1).held_up("ErrImagePull", "no such image").record,
        ],
        Outcome.STARTING,
        "Starting",
        "1 of 2 workers run; worker 1 on n2: container trainer: ErrImagePull: no such image",
    ),
    Case(
        "both run",
        lambda job: [a_pod(job, rank).running().record for rank in (0, 1)],
        Outcome.RUNNING,
        "AllWorkersRun",
    ),
    Case(
        "one ended well before the other",
        lambda job: [a_pod(job, 0).ended().record, a_pod(job, 1).running().record],
        Outcome.RUNNING,
        "AllWorkersRun",
    ),
    Case(
        "both ended well",
        lambda job: [a_pod(job, rank).ended().record for rank in (0, 1)],
        Outcome.SUCCEEDED,
        "AllWorkersSucceeded",
        "all 2 workers ended with exit code 0",
    ),
    Case(
        "one failed, and the other lost its peer a second later",
        lambda job: [
            a_pod(job, 0).ended(1, message="connection reset", at=NOW - 1).record,
            a_pod(job, 1).ended(7, message="division by zero", at=NOW - 2).record,
        ],
        Outcome.FAILED,
        "Error",
        "worker 1 on n2 ended with exit code 7 (Error): division by zero",
    ),
    Case(
        "one was killed for its memory, after the other failed",
        lambda job: [
            a_pod(job, 0).ended(1, at=NOW - 3).record,
            a_pod(job, 1).ended(137, "OOMKilled", at=NOW - 1).record,
        ],
        Outcome.FAILED,
        "OOMKilled",
        "worker 1 on n2 ended with exit code 137 (OOMKilled)",
    ),
    Case(
        "a kubelet refused one: nobody's failure",
        lambda job: [
            a_pod(job, 0).running().record,
            a_pod(job, 1).refused("UnexpectedAdmissionError").record,
        ],
        Outcome.ROLLED_BACK,
        "WorkerRefused",
        "worker 1 could not start on n2: the kubelet refused it: UnexpectedAdmissionError: no",
        ("n2",),
    ),
    Case(
        "a node had too little CPU left when the pod came",
        lambda job: [a_pod(job, 0).refused("OutOfcpu").record],
        Outcome.ROLLED_BACK,
        "WorkerRefused",
        want_avoid=("n1",),
    ),
    Case(
        "kube-scheduler has complained for a moment only",
        lambda job: [a_pod(job, 0).unschedulable(since=NOW - 1).record],
        Outcome.STARTING,
        "Starting",
    ),
    Case(
        "kube-scheduler has complained for long enough",
        lambda job: [a_pod(job, 0).unschedulable(since=NOW - TIMEOUTS.unschedulable_seconds).record],
        Outcome.ROLLED_BACK,
        "WorkerUnschedulable",
        "kube-scheduler does not let worker 0 on n1: Insufficient cpu",
        ("n1",),
    ),
    Case(
        "time is over and one does not run",
        lambda job: [a_pod(job, 0).running().record, a_pod(job, 1).bound().record],
        Outcome.ROLLED_BACK,
        "GangTimeout",
        "not all workers ran within 120 s: 1 of 2 workers run; worker 1 on n2 starts",
        ("n2",),
        placed=NOW - TIMEOUTS.gang_timeout_seconds,
    ),
    Case(
        "time is over, and all run",
        lambda job: [a_pod(job, rank).running().record for rank in (0, 1)],
        Outcome.RUNNING,
        "AllWorkersRun",
        placed=NOW - 1000,
    ),
    Case(
        "one is evicted",
        lambda job: [
            a_pod(job, 0).running().record,
            a_pod(job, 1).running().disrupted("EvictionByEvictionAPI").deleting().record,
        ],
        Outcome.DISRUPTED,
        "WorkerDisrupted",
        "worker 1 was taken away from n2: EvictionByEvictionAPI: drained",
        ("n2",),
        was_running=True,
    ),
    Case(
        "somebody deleted one, and its process failed at that",
        lambda job: [a_pod(job, 0).running().record, a_pod(job, 1).ended(143).deleting().record],
        Outcome.DISRUPTED,
        "WorkerDisrupted",
        "worker 1 was taken away from n2: somebody deleted its pod",
        was_running=True,
    ),
    Case(
        "one ran and its pod is gone",
        lambda job: [a_pod(job, 0).running().record],
        Outcome.DISRUPTED,
        "WorkerDisrupted",
        "the pod of worker 1, which was on n2, is gone",
        was_running=True,
    ),
    Case(
        "one was taken away unseen, and the other has failed without it",
        lambda job: [a_pod(job, 0).ended(1, message="connection closed by peer").record],
        Outcome.DISRUPTED,
        "WorkerDisrupted",
        "the pod of worker 1, which was on n2, is gone",
        was_running=True,
    ),
    Case(
        "a node went away for a moment",
        lambda job: [a_pod(job, rank).running().record for rank in (0, 1)],
        Outcome.RUNNING,
        "AllWorkersRun",
        nodes=(a_node("n1"), a_node("n2", ready=False, since=NOW - 1)),
    ),
    Case(
        "a node went away for long",
        lambda job: [a_pod(job, rank).running().record for rank in (0, 1)],
        Outcome.DISRUPTED,
        "NodeLost",
        want_avoid=("n2",),
        nodes=(a_node("n1"), a_node("n2", ready=False, since=NOW - TIMEOUTS.lost_node_seconds)),
    ),
    Case(
        "a node was deleted",
        lambda job: [a_pod(job, rank).running().record for rank in (0, 1)],
        Outcome.DISRUPTED,
        "NodeLost",
        "worker 1 was on n2, which is gone",
        nodes=(a_node("n1"),),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_evaluate_attempt(case: Case) -> None:
    job = a_job().gang(2).placed("n1", "n2").record
    context = context_of(a_view(nodes=case.nodes))
    placed_on = {0: "n1", 1: "n2"}
    result = evaluate_attempt(Attempt(2, case.placed, case.was_running, case.pods(job), placed_on), context)
    assert (result.outcome, result.reason) == (case.want, case.want_reason)
    assert case.want_message in ("", result.message)
    assert result.avoid == case.want_avoid


def test_what_the_node_noticed_is_part_of_the_failures_message() -> None:
    job = a_job().placed("n1").record
    pod = a_pod(job).ended(1, message="OutOfMemoryError").record
    node = a_gpu_node("n1", sessions={0: [a_session(pod, message="it outgrew its quota of 1.0 GiB")]})
    context = context_of(a_view(gpu_nodes=[node], nodes=[a_node("n1")]))
    result = evaluate_attempt(Attempt(1, NOW - 10, True, [pod]), context)
    assert result.message.endswith("(Error): it outgrew its quota of 1.0 GiB: OutOfMemoryError")


STOPPED = {"evicted": "MemoryQuotaExceeded", "message": "stopped by the node after 30 s of grace"}


@pytest.mark.parametrize("code", [143, 0])
def test_who_was_stopped_by_its_node_has_failed_for_that_reason(code: int) -> None:
    job = a_job().gang(2).placed("n1", "n2").record
    peer = a_pod(job, 0).ended(1, message="lost my peer", at=NOW - 2).record
    pod = a_pod(job, 1).ended(code).record
    node = a_gpu_node("n2", sessions={0: [a_session(pod, **STOPPED)]})
    context = context_of(a_view(gpu_nodes=[node], nodes=[a_node("n2")]))
    result = evaluate_attempt(Attempt(2, NOW - 10, True, [peer, pod]), context)
    assert (result.outcome, result.reason) == (Outcome.FAILED, "MemoryQuotaExceeded")
    assert result.message == (
        f"worker 1 on n2 ended with exit code {code} (MemoryQuotaExceeded): {STOPPED['message']}"
    )


def test_an_attempt_still_runs_while_its_node_stops_one_of_its_processes() -> None:
    job = a_job().placed("n1").record
    pod = a_pod(job).running().record
    node = a_gpu_node("n1", sessions={0: [a_session(pod, **STOPPED)]})
    context = context_of(a_view(gpu_nodes=[node], nodes=[a_node("n1")]))
    assert evaluate_attempt(Attempt(1, NOW - 10, True, [pod]), context).outcome is Outcome.RUNNING


def test_a_failures_message_is_a_sentence_and_not_a_traceback_twice() -> None:
    job = a_job().placed("n1").record
    words = "torch.OutOfMemoryError: Laneway: this process may hold 1.0 GiB of GPU-1, the quota of its share: use a smaller batch"
    pod = (
        a_pod(job)
        .ended(1, message=f"step 1\nTraceback (most recent call last):\n  File x\n{words}\n\n")
        .record
    )
    context = context_of(a_view(nodes=[a_node("n1")]))
    result = evaluate_attempt(Attempt(1, NOW - 10, True, [pod]), context)
    assert result.message == f"worker 0 on n1 ended with exit code 1 (Error): {words}"

    noted = words.removeprefix("torch.OutOfMemoryError: ")
    node = a_gpu_node("n1", sessions={0: [a_session(pod, message=f"hit its quota: {noted}")]})
    context = context_of(a_view(gpu_nodes=[node], nodes=[a_node("n1")]))
    result = evaluate_attempt(Attempt(1, NOW - 10, True, [pod]), context)
    assert result.message == f"worker 0 on n1 ended with exit code 1 (Error): hit its quota: {noted}"


def test_a_pod_that_the_api_server_refused_rolls_back_before_all_else() -> None:
    context = context_of(a_view(nodes=[]))
    result = evaluate_attempt(Attempt(1, NOW, False, [], refused="it is invalid"), context)
    assert (result.outcome, result.reason, result.message) == (
        Outcome.ROLLED_BACK,
        "PodRefused",
        "it is invalid",
    )


def test_a_gang_has_started_when_its_last_worker_has() -> None:
    job = a_job().gang(2).placed("n1", "n2").record
    pods = [a_pod(job, 0).running(since=NOW - 9).record, a_pod(job, 1).running(since=NOW - 3).record]
    context = context_of(a_view(nodes=[a_node("n1"), a_node("n2")]))
    assert evaluate_attempt(Attempt(2, NOW - 10, False, pods), context).started_seconds == pytest.approx(
        NOW - 3
    )
