"""A TrainingJob in words."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.cli import job_text
from laneway.cli.verbs.events import when_seconds
from laneway.cli.verbs.get import described
from laneway.cli.verbs.list_jobs import rows

from tests.unit.cli.jobs import CREATED, CREATED_SECONDS, PLACED, a_condition, a_job, a_reason

NOW = CREATED_SECONDS + 95


def making_way(depth: str, **fields: Any) -> dict[str, Any]:
    """For whom a job makes way."""
    return {"depth": depth, "message": "It makes way for team/new.", "since": CREATED} | fields


@pytest.mark.parametrize(
    ("job", "want"),
    [
        (a_job(), "Waiting"),
        (a_job(placement=PLACED), "Starting"),
        (a_job(placement=PLACED, conditions=[a_condition("Running")]), "Running"),
        (a_job(placement=PLACED, preemption=making_way("Pause")), "Starting"),
        (a_job(placement=PLACED, preemption=making_way("Pause", reachedAt=CREATED)), "Paused"),
        (a_job(placement=PLACED, preemption=making_way("Offload", reachedAt=CREATED)), "Offloaded"),
        (a_job(conditions=[a_condition("Running", status="False"), a_condition("Preempted")]), "Preempted"),
        (a_job(conditions=[a_condition("Succeeded")]), "Succeeded"),
        (a_job(conditions=[a_condition("Failed")]), "Failed"),
        ({**a_job(), "spec": {"suspend": True, "gpus": {}}}, "Suspended"),
    ],
)
def test_state(job: dict[str, Any], want: str) -> None:
    assert job_text.state(job) == want


@pytest.mark.parametrize(
    ("gpus", "workers", "want"),
    [
        ({"share": 50}, 1, "50% GPU"),
        ({"perWorker": 1}, 4, "4 × 1 GPU"),
        ({"perWorker": 2}, 1, "2 GPUs"),
        ({"memory": "8Gi"}, 1, "8Gi of a GPU"),
    ],
)
def test_what_it_asks_for(gpus: dict[str, Any], workers: int, want: str) -> None:
    assert job_text.asks_for(a_job(gpus=gpus, workers=workers)) == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(-3, "0s"), (59, "59s"), (60, "1m"), (450, "7m30s"), (11100, "3h5m"), (187200, "2d4h"), (86400, "1d")],
)
def test_spans(seconds: float, want: str) -> None:
    assert job_text.span(seconds) == want


@pytest.mark.parametrize(
    ("story", "job", "want"),
    [
        (
            "a waiting job",
            a_job(waiting=a_reason(), queue=1, conditions=[a_condition("Admitted")]),
            [
                "digits waits: It needs 4 GPUs. (GPUsBusy)",
                "What would let it run: It starts when 3 more GPUs have room.",
                "Its place among the waiting jobs: 2 (queue 1).",
                "It has waited 1m35s.",
            ],
        ),
        (
            "a job that was advised",
            a_job(
                waiting=a_reason(
                    ahead=["team/a", "team/b"],
                    blockers=["team/x"],
                    alternatives=["workers: 2 instead of 4", "gpus.share: 30 instead of 50"],
                    estimatedStart="2026-01-31T12:11:35Z",
                    estimateBasis="1 job holds GPUs that it can use, and it is known how long they run.",
                ),
                conditions=[a_condition("Admitted")],
            ),
            [
                "digits waits: It needs 4 GPUs. (GPUsBusy)",
                "What would let it run: It starts when 3 more GPUs have room.",
                "It would start now with: workers: 2 instead of 4; or gpus.share: 30 instead of 50.",
                "Its place among the waiting jobs: 2 (queue 0); before it: team/a, team/b.",
                "It waits for: team/x.",
                "It has waited 1m35s.",
                "It may start in about 10m: an estimate. 1 job holds GPUs that it can use, and it is known how long they run.",
            ],
        ),
        (
            "a job that stands aside",
            a_job(
                placement=PLACED,
                preemption=making_way("Pause", reachedAt=CREATED, cost="200m"),
                waiting=a_reason(message="It is paused.", unblock="", position=0, since=None),
                conditions=[a_condition("Running", status="False")],
            ),
            [
                "digits waits: It is paused. (GPUsBusy)",
                "It makes way by pausing; its memory stays on the GPU: It makes way for team/new.",
                "Beside the wait that costs it about 0.2 s.",
            ],
        ),
        (
            "a job that can never run holds no place",
            a_job(waiting=a_reason(position=0, unblock="", since=None), conditions=[a_condition("Admitted")]),
            ["digits waits: It needs 4 GPUs. (GPUsBusy)"],
        ),
        (
            "a running job",
            a_job(placement=PLACED, conditions=[a_condition("Running")]),
            ["digits does not wait: it is running.", "worker 0 on n1: GPU-1 (50%)"],
        ),
        (
            "a failed job",
            a_job(conditions=[a_condition("Failed", "BackoffLimitExceeded", "Worker 0 failed.")]),
            ["digits does not wait: it has failed (BackoffLimitExceeded).", "Worker 0 failed."],
        ),
        (
            "a job between two steps",
            a_job(conditions=[a_condition("Preempted", message="It made way.")]),
            ["digits is about to be considered.", "It made way."],
        ),
    ],
)
def test_explanations(story: str, job: dict[str, Any], want: list[str]) -> None:
    assert job_text.explained(job, NOW) == want, story


def test_a_job_that_nobody_has_looked_at_points_to_the_operator() -> None:
    first, second = job_text.explained(a_job(), NOW)
    assert first == "digits has not been looked at yet."
    assert "the operator may be down" in second


def test_the_list() -> None:
    jobs = [
        a_job("a", waiting=a_reason(), attainedService="1500m"),
        a_job("b", placement=PLACED, queue=2, progress={"percent": 40}),
    ]
    assert rows(jobs, NOW, with_namespace=True).splitlines() == [
        "NAMESPACE   NAME   STATE      DONE   GPUS      QUEUE   SERVICE   AGE     WAITS FOR",
        "team        a      Waiting    -      50% GPU   0       2 GPU-s   1m35s   GPUsBusy (#2)",
        "team        b      Starting   40%    50% GPU   2       0 GPU-s   1m35s   -",
    ]


def test_the_description_has_profile_placement_and_conditions() -> None:
    job = a_job(
        placement=PLACED,
        conditions=[a_condition("Running")],
        profile={
            "persistentBytes": 1 << 20,
            "ephemeralBytes": 2 << 20,
            "iterationMicroseconds": 1500,
            "iterationSpreadMicroseconds": 200,
        },
    )
    text = "\n".join(described(job, NOW))
    assert "Profile:      persistent 1.0 MiB, ephemeral 2.0 MiB, iteration 1.5 ms (spread 0.2 ms)" in text
    assert "  worker 0 on n1: GPU-1 (50%)" in text
    assert "  Running   True     Because   So it is." in text


@pytest.mark.parametrize(
    ("event", "want"),
    [
        ({"metadata": {}, "lastTimestamp": "2026-01-31T12:00:00Z"}, CREATED_SECONDS),
        (
            {"metadata": {}, "eventTime": "2026-01-31T12:00:01.500000Z", "lastTimestamp": None},
            CREATED_SECONDS + 1.5,
        ),
        (
            {
                "metadata": {},
                "eventTime": "2026-01-31T12:00:01Z",
                "series": {"lastObservedTime": "2026-01-31T12:00:09Z"},
            },
            CREATED_SECONDS + 9,
        ),
        ({"metadata": {}}, 0.0),
    ],
)
def test_when_an_event_was_last_seen(event: dict[str, Any], want: float) -> None:
    assert when_seconds(event) == want


def test_for_whom_it_made_way_last() -> None:
    job = a_job(lastPreemption=making_way("Evict"))
    how = "1m35s ago, by ending; it starts again from its checkpoint: It makes way for team/new."

    assert job_text.last_made_way(job, NOW) == how
    assert f"Made way:     {how}" in described(job, NOW)
    assert job_text.last_made_way(a_job(), NOW) == ""
