"""How TrainingJobs are shown."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api.durations import duration
from laneway.api.rfc3339 import format_time
from laneway.cli import job_format
from laneway.cli.job_table import job_table
from laneway.cli.verbs.get import description
from laneway.sdk import job_object

from tests.support.training_jobs import (
    CREATED,
    CREATED_SECONDS,
    PLACED,
    a_condition,
    a_job,
    a_reason,
    an_ended_attempt,
)

NOW = CREATED_SECONDS + 95


def a_preemption(action: str, **fields: Any) -> dict[str, Any]:
    """A job's preemption."""
    return {
        "action": action,
        "message": "Preempted by team/new (queue 0 before queue 1).",
        "since": CREATED,
    } | fields


@pytest.mark.parametrize(
    ("job", "want"),
    [
        (a_job(), "Pending"),
        (a_job(conditions=[a_condition("Accepted")], waiting=a_reason()), "Pending (GPUsBusy)"),
        (a_job(conditions=[a_condition("Running")]), "Running"),
        (a_job(conditions=[a_condition("Failed", "DeadlineExceeded")]), "Failed (DeadlineExceeded)"),
    ],
)
def test_the_state_and_its_reason_are_those_of_the_status(job: dict[str, Any], want: str) -> None:
    assert job_format.state_and_reason(job) == want


@pytest.mark.parametrize(
    ("gpus", "workers", "want"),
    [
        ({"type": "Share", "sharePercent": 50}, 1, "50% GPU"),
        ({"type": "Count", "count": 1}, 4, "4 × 1 GPU"),
        ({"type": "Count", "count": 2}, 1, "2 GPUs"),
        ({"type": "Memory", "memory": "8Gi"}, 1, "8Gi of a GPU"),
    ],
)
def test_requests(gpus: dict[str, Any], workers: int, want: str) -> None:
    assert job_format.requested(a_job(gpus=gpus, workers=workers)) == want


def test_an_elastic_job_is_shown_with_the_workers_that_it_has() -> None:
    rescale = {"since": CREATED, "attempt": 1, "fromWorkers": 1, "toWorkers": 2, "costMilliseconds": 31_000}
    job = a_job(workers=4, rescale=rescale, attemptWorkers=2, attempt=2)
    pending = a_condition("RescalePending", "NoIdleGPUs", message="Running with 2 workers.")
    job["status"] |= {"state": "Running", "conditions": [a_condition("Running"), pending]}
    job["spec"] |= {"minWorkers": 1, "maxWorkers": 8}
    job["status"]["workers"] = 2
    job["status"]["failedWorkers"] = [
        {"workers": 6, "failures": 2, "last": CREATED, "avoided": True},
        {"workers": 5, "failures": 1, "last": CREATED},
    ]
    text = "\n".join(description(job, NOW))
    assert (
        "Requests:     2 × 50% GPU\nWorkers:      2 now; 4 in the spec; 1 to 8 possible, except 6 (failed)"
        in text
    )
    assert "Rescaled:     1m35s ago, from 1 to 2 workers; 31 s without training" in text
    assert "Rescale:      Running with 2 workers. (NoIdleGPUs)" in text
    assert "Running with 2 workers. (NoIdleGPUs)" in job_format.explanation(job, NOW)
    job["status"] |= {"attempt": 1}
    rescale["message"] = "Stopping to restart with 2 workers instead of 1 (spec.workers)."
    assert job_format.last_rescale(job, NOW) == f"1m35s ago. {rescale['message']}"
    pending |= {"status": "False", "reason": "NotPending"}
    assert not job_format.pending_rescale(job)
    pending |= {"reason": "ElasticPolicyDecides"}
    assert job_format.pending_rescale(job) == "Running with 2 workers. (ElasticPolicyDecides)"
    assert (job_object.workers(job), job_object.ranks(job)) == (2, 4)
    assert job_format.scaling(a_job(workers=2)) == job_format.last_rescale(a_job(workers=2), NOW) == ""


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(-3, "0s"), (59, "59s"), (60, "1m"), (450, "7m30s"), (11100, "3h5m"), (187200, "2d4h"), (86400, "1d")],
)
def test_durations(seconds: float, want: str) -> None:
    assert duration(seconds) == want


@pytest.mark.parametrize(
    ("story", "job", "want"),
    [
        (
            "a waiting job",
            a_job(waiting=a_reason(), queue=1, conditions=[a_condition("Accepted")]),
            [
                "digits is pending: It needs 4 GPUs. (GPUsBusy)",
                "To run: It starts when 3 more GPUs have room.",
                "Position: 2 of the waiting jobs (queue 1).",
                "Waiting for 1m35s.",
            ],
        ),
        (
            "a job that was estimated",
            a_job(
                waiting=a_reason(
                    ahead=["team/a", "team/b"],
                    aheadElsewhere=3,
                    blockers=["team/x"],
                    blockersElsewhere=1,
                    alternatives=["workers: 2 instead of 4", "gpus.sharePercent: 30 instead of 50"],
                    estimatedStart="2026-01-31T12:11:35Z",
                    estimateBasis="1 job holds GPUs that it can use, and it is known how long they run.",
                ),
                conditions=[a_condition("Accepted")],
            ),
            [
                "digits is pending: It needs 4 GPUs. (GPUsBusy)",
                "To run: It starts when 3 more GPUs have room.",
                "It would start now with: workers: 2 instead of 4; or gpus.sharePercent: 30 instead of 50.",
                "Position: 2 of the waiting jobs (queue 0); ahead of it: team/a, team/b, 3 jobs of other namespaces.",
                "Its GPUs are held by: team/x, a job of another namespace.",
                "Waiting for 1m35s.",
                "Estimated start: in about 10m. 1 job holds GPUs that it can use, and it is known how long they run.",
            ],
        ),
        (
            "a job that can use two GPU models",
            a_job(
                waiting=a_reason(
                    speeds=[
                        {
                            "model": "T4",
                            "percent": 40,
                            "basis": "PeakFigures",
                            "source": "from the data sheets of it and of A100",
                        },
                        {"model": "A100", "percent": 100, "basis": "Measured"},
                    ],
                ),
                conditions=[a_condition("Accepted")],
            ),
            [
                "digits is pending: It needs 4 GPUs. (GPUsBusy)",
                "To run: It starts when 3 more GPUs have room.",
                "Position: 2 of the waiting jobs (queue 0).",
                "Waiting for 1m35s.",
                "Speed on A100: 100% of the fastest of its models (measured).",
                "Speed on T4: 40% of the fastest of its models (an estimate from the data sheets of it and of A100).",
            ],
        ),
        (
            "a paused job",
            a_job(
                placement=PLACED,
                preemption=a_preemption("Pause", reachedAt=CREATED, costMilliseconds=200),
                waiting=a_reason(message="It is paused.", unblock="", position=0, since=None),
                conditions=[a_condition("Running", "Paused", status="False")],
            ),
            [
                "digits is paused: It is paused. (GPUsBusy)",
                "Preempted, paused; its memory stays on the GPU: Preempted by team/new (queue 0 before queue 1).",
                "Expected cost besides the wait: about 0.2 s on each GPU.",
            ],
        ),
        (
            "a job that can never run holds no place",
            a_job(waiting=a_reason(position=0, unblock="", since=None), conditions=[a_condition("Accepted")]),
            ["digits is pending: It needs 4 GPUs. (GPUsBusy)"],
        ),
        (
            "a running job",
            a_job(placement=PLACED, conditions=[a_condition("Running")]),
            ["digits is running.", "worker 0 on n1: GPU-1 (50%)"],
        ),
        (
            "a failed job",
            a_job(conditions=[a_condition("Failed", "BackoffLimitExceeded", "Worker 0 failed.")]),
            ["digits has failed (BackoffLimitExceeded).", "Worker 0 failed."],
        ),
        (
            "a completed job",
            a_job(conditions=[a_condition("Complete", "Completed", "All workers exited with code 0.")]),
            ["digits has completed (Completed).", "All workers exited with code 0."],
        ),
        (
            "an invalid job",
            a_job(conditions=[a_condition("Accepted", "GPUsTooLarge", "It asks for 99.", status="False")]),
            ["digits is invalid (GPUsTooLarge).", "It asks for 99."],
        ),
        (
            "a preempted job before the next decision",
            a_job(conditions=[a_condition("Preempted", message="Preempted by team/new.")]),
            ["digits is pending.", "Preempted by team/new."],
        ),
    ],
)
def test_explanations(story: str, job: dict[str, Any], want: list[str]) -> None:
    assert job_format.explanation(job, NOW) == want, story


def test_an_unseen_job_points_to_the_operator() -> None:
    first, second = job_format.explanation(a_job(), NOW)
    assert first == "The operator has not seen digits yet."
    assert f"kubectl get pods --all-namespaces -l {job_format.OPERATOR_SELECTOR}" in second


@pytest.mark.parametrize(
    ("managed_by", "want"),
    [
        ("example.com/other", "digits is managed by example.com/other (spec.managedBy)."),
        ("laneway.dev/operator", "The operator has not seen digits yet."),
        ("", "The operator has not seen digits yet."),
    ],
)
def test_a_job_of_another_controller_names_it(managed_by: str, want: str) -> None:
    job = a_job()
    job["spec"]["managedBy"] = managed_by
    assert job_format.explanation(job, NOW)[0] == want


def test_the_list() -> None:
    jobs = [
        a_job(
            "a", conditions=[a_condition("Accepted")], waiting=a_reason(), attainedServiceGPUMilliseconds=1500
        ),
        a_job("b", placement=PLACED, queue=2, progress={"percent": 40}),
    ]
    assert job_table(jobs, NOW, namespaces=True).splitlines() == [
        "NAMESPACE   NAME   STATE      REASON     PROGRESS   GPUS      QUEUE   POSITION   SERVICE   AGE",
        "team        a      Pending    GPUsBusy   -          50% GPU   0       2          2 GPU-s   1m35s",
        "team        b      Starting   -          40%        50% GPU   2       -          0 GPU-s   1m35s",
    ]


def test_the_service_of_a_running_job_is_counted_up_to_now() -> None:
    counted = {"attainedServiceGPUMilliseconds": 1500, "serviceCountedAt": format_time(NOW - 100)}
    assert job_format.attained_service(a_job(placement=PLACED, **counted), NOW) == "52 GPU-s"
    assert job_format.attained_service(a_job(placement=PLACED, **counted), NOW - 200) == "2 GPU-s"
    assert (
        job_format.attained_service(a_job(placement=PLACED, attainedServiceGPUMilliseconds=1500), NOW)
        == "2 GPU-s"
    )


def test_the_description_has_profile_placement_and_conditions() -> None:
    job = a_job(
        placement=PLACED,
        conditions=[a_condition("Running")],
        profile={
            "persistentBytes": 1 << 20,
            "ephemeralBytes": 2 << 20,
            "iterationMicroseconds": 1500,
            "iterationSpreadMicroseconds": 200,
            "cpuPoints": [
                {"cpuMillis": 500, "iterationMicroseconds": 3000},
                {"cpuMillis": 2000, "iterationMicroseconds": 1500},
            ],
        },
        cpus={"allocated": "2", "requested": "1", "message": "Worker 0 on n1: Deferred: busy"},
    )
    text = "\n".join(description(job, NOW))
    assert "Profile:      persistent 1.0 MiB, ephemeral 2.0 MiB, iteration 1.5 ms (spread 0.2 ms)" in text
    assert "By CPUs:      0.5: 3.0 ms, 2: 1.5 ms" in text
    assert "CPUs:         2 for each worker, which requests 1. Worker 0 on n1: Deferred: busy" in text
    assert "  worker 0 on n1: GPU-1 (50%)" in text
    assert "  Running   True     Because   So it is." in text


def test_the_last_preemption() -> None:
    job = a_job(lastPreemption=a_preemption("Evict"))
    how = (
        "1m35s ago, evicted; it restarts from its checkpoint: Preempted by team/new (queue 0 before queue 1)."
    )

    assert job_format.last_preemption(job, NOW) == how
    assert f"Preempted:    {how}" in description(job, NOW)
    assert job_format.last_preemption(a_job(), NOW) == ""


def test_ended_attempts() -> None:
    job = a_job(endedAttempts=[an_ended_attempt(), an_ended_attempt(2, lost=None)])
    lines = [" ".join(line.split()) for line in description(job, NOW)]
    why = "Preempted HigherQueue Preempted by team/new (queue 0 before queue 1)."
    assert lines[lines.index("Ended attempts:") + 1 :] == [
        "ATTEMPT ENDED LASTED WORKERS GPU-S LOST OUTCOME REASON MESSAGE",
        f"1 35s ago 1m 2 100 30 {why}",
        f"2 35s ago 1m 2 100 unknown {why}",
    ]
    assert "Ended attempts:" not in description(a_job(), NOW)


MEASURED = {
    "persistentBytes": 1,
    "ephemeralBytes": 1,
    "iterationMicroseconds": 200_000,
    "dataMicroseconds": 300_000,
    "iterations": 100,
}


@pytest.mark.parametrize(
    ("story", "resources", "want"),
    [
        ("a limit is all it has", {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, "if its 2 are busy"),
        ("a request", {"requests": {"cpu": "1500m"}}, "if its 1.5 are busy"),
        ("neither", {}, "its trainer requests none"),
    ],
)
def test_a_running_job_that_waits_for_data(story: str, resources: dict[str, Any], want: str) -> None:
    job = a_job(placement=PLACED, profile=MEASURED)
    job["spec"]["template"] = {
        "spec": {"containers": [{"name": "log"}, {"name": "trainer", "resources": resources}]}
    }
    lines = job_format.explanation(job, NOW)
    assert any(line.startswith("It waits for data for 60 % of each iteration") for line in lines), story
    assert any(want in line for line in lines), story


def test_the_cpus_that_a_job_was_lent_count() -> None:
    cpus = {"allocated": "3", "requested": "2"}
    lines = job_format.data_wait_lines(a_job(placement=PLACED, profile=MEASURED, cpus=cpus))
    assert "CPUs: if its 3 are busy, request 8." in lines


def test_a_job_that_was_not_measured_does_not_wait_for_data() -> None:
    assert job_format.data_wait_lines(a_job(placement=PLACED)) == ()
    assert job_format.data_wait_lines(a_job(placement=PLACED, profile={"unknown": 1})) == ()
    several = a_job(gpus={"type": "Count", "count": 2}, placement=PLACED, profile=MEASURED)
    assert len(job_format.data_wait_lines(several)) == 4
