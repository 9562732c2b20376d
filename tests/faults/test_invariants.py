"""The judge itself: each invariant is seen to be broken where it is, and a life without faults breaks none."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.faults.history import Change
from tests.faults.invariants import CAPACITY, GANG, GRACE, ONCE, SERVICE, violations
from tests.faults.journal import Journal
from tests.faults.nodes_at_work import Run

Raw = dict[str, Any]


class Story:
    """A history that is told change by change."""

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
    return {
        "metadata": {"name": name, "uid": name},
        "spec": {"workers": len(gpus)},
        "status": {"conditions": conditions, "attempt": attempt, "placement": placement, **status},
    }


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


def a_gang_that_runs() -> Story:
    story = Story()
    story.tell("TrainingJob", job("a", "Placed"))
    for rank in (0, 1):
        story.tell("Pod", pod("a", rank))
        story.tell("Pod", pod("a", rank, "Running"))
    story.tell("TrainingJob", job("a", "Placed", "Running", attainedService="4"))
    return story


def test_a_life_without_faults_breaks_nothing() -> None:
    story = a_gang_that_runs()
    for rank in (0, 1):
        story.tell("Pod", pod("a", rank, "Running", deletionTimestamp="t", deletionGracePeriodSeconds=30))
    story.tell("TrainingJob", job("a", attainedService="9"))
    for rank in (0, 1):
        story.tell("Pod", pod("a", rank, "Running", deletionTimestamp="t"), deleted=True)
    story.tell("TrainingJob", job("a", "Placed", attempt=2, attainedService="9"))
    story.tell("Pod", pod("a", 0, attempt=2))
    assert story.broken == []


def test_a_gpu_that_is_promised_twice() -> None:
    story = a_gang_that_runs()
    story.tell("TrainingJob", job("b", "Placed", gpus=("g1",)))
    assert story.broken == [CAPACITY]


def test_a_gpu_that_is_promised_while_a_worker_leaves_it() -> None:
    story = a_gang_that_runs()
    story.tell("TrainingJob", job("a", attainedService="9"))
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


def test_a_gang_that_is_said_to_run_in_part() -> None:
    story = Story()
    story.tell("TrainingJob", job("a", "Placed"))
    story.tell("Pod", pod("a", 0))
    story.tell("Pod", pod("a", 0, "Running"))
    story.tell("TrainingJob", job("a", "Placed", "Running"))
    assert story.broken == [GANG]


def test_a_worker_after_the_end_of_its_job() -> None:
    story = Story()
    story.tell("TrainingJob", job("a", "Succeeded"))
    story.tell("Pod", pod("a", 0))
    assert story.broken == [ONCE]


def test_workers_of_two_attempts_at_a_time() -> None:
    story = a_gang_that_runs()
    story.tell("TrainingJob", job("a", "Placed", attempt=2, gpus=("g2", "g3"), attainedService="4"))
    story.tell("Pod", pod("a", 0, attempt=2, gpu="g2"))
    assert ONCE in story.broken


def test_a_worker_that_is_started_twice() -> None:
    found = violations([], [Run("a", 1, 0, "u1"), Run("a", 1, 0, "u2"), Run("a", 2, 0, "u3")])
    assert [each.invariant for each in found] == [ONCE]


@pytest.mark.parametrize("lost", [{"attainedService": "3"}, {"attainedService": "4", "attempt": 0}])
def test_service_and_counts_that_go_back(lost: Raw) -> None:
    story = a_gang_that_runs()
    after = job("a", "Placed", "Running")
    after["status"] |= lost
    story.tell("TrainingJob", after)
    assert SERVICE in story.broken


def test_a_worker_that_is_gone_without_a_word() -> None:
    story = a_gang_that_runs()
    story.tell("Pod", pod("a", 1, "Running"), deleted=True)
    assert story.broken == [GRACE]


def test_a_worker_that_gets_less_than_its_grace_period() -> None:
    story = a_gang_that_runs()
    story.tell("Pod", pod("a", 1, "Running", deletionTimestamp="t", deletionGracePeriodSeconds=2))
    assert story.broken == [GRACE]


def test_a_write_of_who_does_not_hold_the_lease() -> None:
    journal = Journal()
    journal.note("a/1", "PUT lease", 1, 0.0, lease=True)
    journal.note("a/1", "PATCH job", 2, 0.0, lease=False)
    assert journal.written_out_of_turn() == []
    journal.note("a/1", "PATCH job", 5, 0.0, lease=False)
    journal.note("b/1", "PUT lease", 4, 0.0, lease=True)
    assert journal.written_out_of_turn() == [], "it was in mid-air"
    (lease,) = (each for each in journal.leases if each.writer == "b/1")
    journal.note("a/1", "PATCH job", 6, lease.answered_seconds + 1, lease=False)
    assert len(journal.written_out_of_turn()) == 1
