"""The check of the invariants: it finds each broken invariant, and none in a life without faults."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.faults.history import Change
from tests.faults.invariants import CAPACITY, GANG, GRACE, ONCE, ORDERS, SERVICE, violations
from tests.faults.nodes_at_work import Run
from tests.support.api_faults.journal import Journal, Write

Raw = dict[str, Any]


class Story:
    """A history that is built change by change."""

    def __init__(self) -> None:
        self.changes: list[Change] = []

    def tell(self, kind: str, raw: Raw, *, deleted: bool = False) -> None:
        """Add a change."""
        self.changes.append(Change(len(self.changes) + 1, kind, deleted, copy.deepcopy(raw)))

    @property
    def broken(self) -> list[str]:
        """What was broken, in order."""
        return [each.invariant for each in violations(self.changes)]


def job(name: str, *true: str, attempt: int = 1, gpus: tuple[str, ...] = ("g0", "g1"), **status: Any) -> Raw:
    placement = [
        {"worker": rank, "node": "n", "gpus": [gpu], "sharePercent": 100} for rank, gpu in enumerate(gpus)
    ]
    conditions = [{"type": each, "status": "True", "reason": "R"} for each in true]
    ended = [an_ended_attempt(number) for number in range(1, attempt + ("Placed" not in true))]
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"workers": len(gpus)},
        "status": {
            "conditions": conditions,
            "attempt": attempt,
            "placement": placement,
            "endedAttempts": ended,
            **status,
        },
    }


def an_ended_attempt(number: int, outcome: str = "Preempted") -> Raw:
    return {"attempt": number, "outcome": outcome}


def pod(
    of: str,
    rank: int,
    phase: str = "Pending",
    *,
    attempt: int = 1,
    gpu: str = "",
    uid: str = "",
    **metadata: Any,
) -> Raw:
    return {
        "metadata": {
            "name": f"{of}-{rank}",
            "uid": uid or f"{of}-{rank}-{attempt}",
            "labels": {
                "laneway.dev/job": of,
                "laneway.dev/job-uid": of,
                "laneway.dev/rank": str(rank),
                "laneway.dev/attempt": str(attempt),
            },
            "annotations": {"laneway.dev/gpus": gpu or f"g{rank}"},
            **metadata,
        },
        "spec": {
            "nodeName": "" if phase == "Pending" else "n",
            "terminationGracePeriodSeconds": 30,
            "containers": [{"resources": {"limits": {"laneway.dev/gpu-percent": "100"}}}],
        },
        "status": {"phase": phase},
    }


def node(
    orders: dict[str, str] | None = None,
    sessions: dict[str, tuple[str, int]] | None = None,
    percent: int = 200,
) -> Raw:
    """A node with g0, its orders by pod, and its sessions by pod: state and persistent memory of 100
    bytes."""
    held = [
        {"podUID": uid, "pod": uid, "state": state, "persistentBytes": persistent, "ephemeralBytes": 5}
        for uid, (state, persistent) in (sessions or {}).items()
    ]
    gpu = {"uuid": "g0", "allocatablePercent": percent, "allocatableBytes": 100, "sessions": held}
    return {
        "metadata": {"name": "n", "uid": "n"},
        "spec": {"orders": [{"podUID": uid, "order": order} for uid, order in (orders or {}).items()]},
        "status": {"gpus": [gpu]},
    }


def preempted_job(name: str, depth: str, *true: str, reached: bool = False) -> Raw:
    preemption = {"action": depth, **({"reachedAt": "t"} if reached else {})}
    return job(name, "Placed", "Preempted", *true, gpus=("g0",), preemption=preemption)


def a_job_that_pauses() -> Story:
    """The job and its node have the order, and the node has confirmed it."""
    story = Story()
    story.tell("GPUNode", node())
    story.tell("TrainingJob", job("a", "Placed", gpus=("g0",)))
    story.tell("Pod", pod("a", 0, "Running"))
    story.tell("GPUNode", node({}, {"a-0-1": ("Holding", 40)}))
    story.tell("TrainingJob", preempted_job("a", "Pause", "Running"))
    story.tell("GPUNode", node({"a-0-1": "Pause"}, {"a-0-1": ("Holding", 40)}))
    story.tell("GPUNode", node({"a-0-1": "Pause"}, {"a-0-1": ("Paused", 40)}))
    return story


def a_job_beside_one_that_is_paused() -> Story:
    story = a_job_that_pauses()
    story.tell("TrainingJob", preempted_job("a", "Pause", reached=True))
    story.tell("TrainingJob", job("b", "Placed", gpus=("g0",)))
    story.tell("Pod", pod("b", 0, "Running"))
    return story


def a_gang_that_runs() -> Story:
    story = Story()
    story.tell("TrainingJob", job("a", "Placed"))
    for rank in (0, 1):
        story.tell("Pod", pod("a", rank))
        story.tell("Pod", pod("a", rank, "Running"))
    story.tell("TrainingJob", job("a", "Placed", "Running", attainedServiceGPUMilliseconds=4000))
    return story


def test_a_life_without_faults_breaks_nothing() -> None:
    story = a_gang_that_runs()
    for rank in (0, 1):
        story.tell("Pod", pod("a", rank, "Running", deletionTimestamp="t", deletionGracePeriodSeconds=30))
    story.tell("TrainingJob", job("a", attainedServiceGPUMilliseconds=9000))
    for rank in (0, 1):
        story.tell("Pod", pod("a", rank, "Running", deletionTimestamp="t"), deleted=True)
    story.tell("TrainingJob", job("a", "Placed", attempt=2, attainedServiceGPUMilliseconds=9000))
    story.tell("Pod", pod("a", 0, attempt=2))
    assert story.broken == []


def test_a_gpu_that_is_promised_twice() -> None:
    story = a_gang_that_runs()
    story.tell("TrainingJob", job("b", "Placed", gpus=("g1",)))
    assert story.broken == [CAPACITY]


def test_a_gpu_that_is_promised_while_a_worker_leaves_it() -> None:
    story = a_gang_that_runs()
    story.tell("TrainingJob", job("a", attainedServiceGPUMilliseconds=9000))
    story.tell("TrainingJob", job("b", "Placed", gpus=("g1",)))
    assert story.broken == [CAPACITY]


def test_a_gpu_whose_worker_has_ended_is_free() -> None:
    story = a_gang_that_runs()
    story.tell("Pod", pod("a", 1, "Succeeded"))
    story.tell("TrainingJob", job("b", "Placed", gpus=("g1",)))
    assert story.broken == []


@pytest.mark.parametrize(
    "made_for",
    [
        pytest.param(job("a"), id="a job that is not placed"),
        pytest.param(job("a", "Placed", attempt=2), id="an attempt that is over"),
        pytest.param(job("x", "Placed"), id="a job that is not there"),
    ],
)
def test_a_worker_that_is_made_without_its_gang_having_gpus(made_for: Raw) -> None:
    story = Story()
    story.tell("TrainingJob", made_for)
    story.tell("Pod", pod("a", 0, gpu="g7"))
    assert story.broken == [GANG]


def test_a_worker_whose_making_was_in_mid_air_when_its_gang_lost_its_gpus() -> None:
    story = Story()
    story.tell("TrainingJob", job("a", "Placed"))
    story.tell("TrainingJob", job("a"))
    story.tell("Pod", pod("a", 1))
    story.tell("TrainingJob", job("a", "Placed", attempt=2))
    story.tell("Pod", pod("a", 0, attempt=2))
    assert story.broken == [GANG, CAPACITY, CAPACITY, ONCE]
    assert violations(story.changes, late={3}) == []


def test_a_worker_in_mid_air_for_which_no_gang_ever_had_gpus() -> None:
    story = Story()
    story.tell("TrainingJob", job("a", "Placed"))
    story.tell("Pod", pod("a", 0, attempt=2))
    assert [each.invariant for each in violations(story.changes, late={2})] == [CAPACITY, GANG]


def test_a_gang_that_is_said_to_run_in_part() -> None:
    story = Story()
    story.tell("TrainingJob", job("a", "Placed"))
    story.tell("Pod", pod("a", 0))
    story.tell("Pod", pod("a", 0, "Running"))
    story.tell("TrainingJob", job("a", "Placed", "Running"))
    assert story.broken == [GANG]


def test_a_worker_after_the_end_of_its_job() -> None:
    story = Story()
    story.tell("TrainingJob", job("a", "Complete"))
    story.tell("Pod", pod("a", 0))
    assert story.broken == [ONCE]


def test_workers_of_two_attempts_at_a_time() -> None:
    story = a_gang_that_runs()
    story.tell(
        "TrainingJob", job("a", "Placed", attempt=2, gpus=("g2", "g3"), attainedServiceGPUMilliseconds=4000)
    )
    story.tell("Pod", pod("a", 0, attempt=2, gpu="g2"))
    assert ONCE in story.broken


def test_a_worker_that_is_started_twice() -> None:
    found = violations([], [Run("a", 1, 0, "u1"), Run("a", 1, 0, "u2"), Run("a", 2, 0, "u3")])
    assert [each.invariant for each in found] == [ONCE]


@pytest.mark.parametrize(
    "lost", [{"attainedServiceGPUMilliseconds": 3000}, {"attainedServiceGPUMilliseconds": 4000, "attempt": 0}]
)
def test_service_and_counts_that_go_back(lost: Raw) -> None:
    story = a_gang_that_runs()
    after = job("a", "Placed", "Running")
    after["status"] |= lost
    story.tell("TrainingJob", after)
    assert SERVICE in story.broken


@pytest.mark.parametrize(
    "history",
    [
        [],
        [an_ended_attempt(1), an_ended_attempt(1)],
        [an_ended_attempt(2), an_ended_attempt(1)],
        [an_ended_attempt(1, "Failed"), an_ended_attempt(2)],
    ],
    ids=["lost", "twice", "out of order", "changed"],
)
def test_a_history_of_attempts_that_is_wrong(history: list[Raw]) -> None:
    story = Story()
    story.tell("TrainingJob", job("a", attempt=1))
    story.tell("TrainingJob", job("a", attempt=2, endedAttempts=history))
    assert SERVICE in story.broken


def test_a_history_of_attempts_in_which_a_success_is_noticed_late() -> None:
    story = Story()
    for outcome in ("Preempted", "Succeeded"):
        story.tell("TrainingJob", job("a", endedAttempts=[an_ended_attempt(1, outcome)]))
    assert not story.broken


def test_a_worker_that_is_gone_without_a_word() -> None:
    story = a_gang_that_runs()
    story.tell("Pod", pod("a", 1, "Running"), deleted=True)
    assert story.broken == [GRACE]


def test_a_worker_that_gets_less_than_its_grace_period() -> None:
    story = a_gang_that_runs()
    story.tell("Pod", pod("a", 1, "Running", deletionTimestamp="t", deletionGracePeriodSeconds=2))
    assert story.broken == [GRACE]


def test_a_job_that_runs_where_another_is_paused_breaks_nothing() -> None:
    story = a_job_beside_one_that_is_paused()
    story.tell("GPUNode", node({"a-0-1": "Pause"}, {"a-0-1": ("Paused", 40), "b-0-1": ("Holding", 40)}))
    story.tell("Pod", pod("b", 0, "Succeeded"))
    story.tell("TrainingJob", job("b", "Complete", gpus=("g0",)))
    story.tell("TrainingJob", job("a", "Placed", "Running", gpus=("g0",)))
    story.tell("GPUNode", node({}, {"a-0-1": ("Paused", 40)}))
    story.tell("GPUNode", node({}, {"a-0-1": ("Holding", 40)}))
    assert story.broken == []


def test_a_gpu_that_offers_less_than_is_held_by_paused_and_running_jobs() -> None:
    story = a_job_beside_one_that_is_paused()
    story.tell("GPUNode", node({"a-0-1": "Pause"}, {"a-0-1": ("Paused", 40)}, percent=100))
    assert story.broken == [CAPACITY]


def test_a_job_that_starts_before_the_node_has_said_that_the_other_is_paused() -> None:
    story = a_job_that_pauses()
    story.tell("GPUNode", node({"a-0-1": "Pause"}, {"a-0-1": ("Holding", 40)}))
    story.tell("TrainingJob", job("b", "Placed", gpus=("g0",)))
    assert story.broken == [CAPACITY]


def test_a_job_that_goes_on_while_another_has_its_turns() -> None:
    story = a_job_beside_one_that_is_paused()
    story.tell("TrainingJob", job("a", "Placed", "Running", gpus=("g0",)))
    assert story.broken == [CAPACITY]


def test_memory_that_is_not_on_the_host_yet() -> None:
    story = a_job_beside_one_that_is_paused()
    story.tell("GPUNode", node({"a-0-1": "Pause"}, {"a-0-1": ("Paused", 40), "b-0-1": ("Holding", 60)}))
    assert story.broken == [CAPACITY]
    story.tell("GPUNode", node({"a-0-1": "Pause"}, {"a-0-1": ("Offloaded", 40), "b-0-1": ("Holding", 60)}))
    assert story.broken == [CAPACITY]


@pytest.mark.parametrize(
    "said", [preempted_job("a", "Pause", reached=True), preempted_job("a", "Offload", reached=True)]
)
def test_a_job_that_is_reported_as_paused_before_its_node_says_so(said: Raw) -> None:
    story = a_job_that_pauses()
    story.tell("GPUNode", node({"a-0-1": "Pause"}, {"a-0-1": ("Holding", 40)}))
    story.tell("TrainingJob", said)
    assert story.broken == [ORDERS]


def test_an_order_that_no_status_said() -> None:
    story = a_job_that_pauses()
    story.tell("GPUNode", node({"a-0-1": "Offload"}, {"a-0-1": ("Paused", 40)}))
    assert story.broken == [ORDERS]


def test_an_order_to_nobody() -> None:
    story = a_job_that_pauses()
    story.tell("GPUNode", node({"a-0-1": "Pause", "x": "Pause"}, {"a-0-1": ("Paused", 40)}))
    assert story.broken == [ORDERS]


def test_a_worker_that_is_let_go_on_while_its_job_is_paused() -> None:
    story = a_job_that_pauses()
    story.tell("TrainingJob", preempted_job("a", "Pause", reached=True))
    story.tell("GPUNode", node({}, {"a-0-1": ("Paused", 40)}))
    assert story.broken == [ORDERS]


def test_a_write_of_who_does_not_hold_the_lease() -> None:
    journal = Journal()
    journal.note("a/1", "PUT lease", 1, 0.0, lease=True)
    journal.note("a/1", "PATCH job", 2, 0.0, lease=False)
    assert journal.written_out_of_turn() == []
    journal.note("a/1", "PATCH job", 5, 0.0, lease=False)
    journal.note("b/1", "PUT lease", 4, 0.0, lease=True)
    assert journal.written_out_of_turn() == [], "it was in mid-air"
    assert journal.late() == {5}
    journal.note("b/1", "PATCH job", 2, 9.0, lease=False)
    assert journal.written_out_of_turn() == [], "it changed nothing"
    (lease,) = (each for each in journal.leases if each.writer == "b/1")
    journal.note("a/1", "PATCH job", 6, lease.answered_seconds + 1, lease=False)
    assert len(journal.written_out_of_turn()) == 1


def test_what_a_stopped_process_was_about_to_send_and_what_it_sends_after_the_answer() -> None:
    journal = Journal()
    journal.note("a/1", "PUT lease", 1, 0.0, lease=True)
    journal.note("b/1", "PUT lease", 2, 0.0, lease=True)
    continued_seconds = journal.leases[-1].answered_seconds + 1
    journal.continued.append(("a/1", continued_seconds))
    journal.writes += [
        Write("a/1", "POST pod", 3, continued_seconds + 1, continued_seconds + 3),
        Write("a/1", "POST pod", 4, continued_seconds + 2, continued_seconds + 4),
    ]
    assert journal.written_out_of_turn() == [], "both were about to be sent"
    assert journal.late() == {3, 4}
    journal.writes.append(Write("a/1", "PATCH job", 5, continued_seconds + 5, continued_seconds + 6))
    assert len(journal.written_out_of_turn()) == 1
