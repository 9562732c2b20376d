"""The pure parts of the benchmark of the operator on played nodes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from laneway.api import names
from laneway.api.gpu_node import GPUNodeStatus
from laneway.operator.state.records.job_record import parse_job

from tests.performance.scale import objects
from tests.performance.scale.agents import a_worker_session, worker_of
from tests.performance.scale.bound_pods import BoundPods
from tests.performance.scale.job_mix import a_mixed_job, ended_status
from tests.performance.scale.operator_figures import Counts, counts_in, moment_of
from tests.performance.scale.operator_tables import operator_tables

_METRICS = """\
laneway_api_writes_total{resource="pods",verb="create"} 8.0
laneway_api_requests_total{code="201",method="POST"} 7.0
laneway_api_requests_total{code="409",method="POST"} 2.0
laneway_preemptions_total{action="Evict",namespace="a",reason="HigherQueue"} 3.0
laneway_preemptions_total{action="Evict",namespace="a",reason="Separated"} 1.0
"""


def _a_pod(phase: str, uid: str = "u-1") -> dict[str, Any]:
    node = objects.node_name(3)
    labels = {names.JOB_LABEL: "j", names.RANK_LABEL: "1", names.ATTEMPT_LABEL: "2"}
    limits = {names.GPU_PERCENT: "50"}
    return {
        "metadata": {
            "uid": uid,
            "name": "j-1",
            "labels": labels,
            "annotations": {names.GPUS_ANNOTATION: f"GPU-{node}-0"},
        },
        "spec": {"nodeName": node, "containers": [{"name": "trainer", "resources": {"limits": limits}}]},
        "status": {"phase": phase},
    }


def _stored(job: dict[str, Any], **more: object) -> dict[str, Any]:
    metadata = {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {**job, "metadata": {**job["metadata"], **metadata}, **more}


def test_every_job_of_the_mix_is_valid_and_the_same_each_time() -> None:
    jobs = [a_mixed_job(f"j{number}", "scale", 1 + number % 8) for number in range(200)]

    assert [parse_job(_stored(job)).problem for job in jobs] == [""] * 200
    assert jobs == [a_mixed_job(f"j{number}", "scale", 1 + number % 8) for number in range(200)]


def test_the_mix_has_templates_of_many_jobs_and_of_one() -> None:
    jobs = [parse_job(_stored(a_mixed_job(f"j{number}", "scale", 1))) for number in range(500)]
    hashes = [job.desired.template_hash for job in jobs if job.desired]

    assert 250 < len(set(hashes)) < 450


@pytest.mark.parametrize("number", range(20))
def test_an_ended_job_has_ended_for_the_operator(number: int) -> None:
    job = a_mixed_job("e", "ended", 2)
    record = parse_job(_stored(job, status=ended_status(number, job)))

    assert record.finished
    assert not record.placed
    assert not record.wrong_summary
    assert record.ended_seconds is not None
    assert record.ended_seconds < time.time()


def test_a_worker_that_runs_has_a_session_that_the_operator_can_read() -> None:
    worker = worker_of(_a_pod("Running"), 1000.0)
    assert worker is not None
    word = objects.agents_word(objects.node_number(worker.node))
    gpu = word["status"]["gpus"][0]
    gpu["sessions"] = [a_worker_session(gpu, worker, 1900.0)]
    (session,) = GPUNodeStatus.model_validate(word["status"]).gpus[0].sessions

    assert gpu["uuid"] in worker.gpus
    assert (session.job, session.rank, session.attempt, session.share_percent) == ("j", 1, 2, 50)
    assert session.iterations > 0
    assert session.saved_work is not None
    assert session.saved_work.checkpointed


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_a_pod_that_does_not_run_has_no_session(phase: str) -> None:
    assert worker_of(_a_pod(phase), 0.0) is None


def test_gpus_in_use_are_those_of_pods_that_run() -> None:
    pods = BoundPods()
    for kind, pod in (
        ("ADDED", _a_pod("Pending", "u-1")),
        ("ADDED", _a_pod("Running", "u-2")),
        ("MODIFIED", _a_pod("Running", "u-1")),
        ("DELETED", _a_pod("Running", "u-2")),
    ):
        pods.take(kind, pod)

    assert pods.running_percent == 50
    assert list(pods.bound) == ["u-1"]


def test_counters_since_an_earlier_page() -> None:
    before = counts_in(_METRICS)
    after = counts_in(_METRICS.replace("8.0", "10.0").replace("3.0", "4.0"))

    assert after.since(before) == Counts({"create pods": 2}, {}, 1)  # type: ignore[arg-type]


def test_the_moment_of_a_line() -> None:
    lines = [
        {"time": "2026-01-01T00:00:00.500+00:00", "message": "cycle"},
        {"time": "2026-01-01T00:00:02.000+00:00", "message": "cycle"},
    ]

    assert moment_of("\n".join(map(json.dumps, lines)), "cycle") == 1767225600.5
    assert moment_of("", "cycle") is None


def test_a_result_without_the_newer_parts_is_still_shown() -> None:
    found = json.loads(Path("docs/measurements/operator-scale.json").read_text(encoding="utf-8"))["result"]
    newer = {"ended_jobs", "preempting", "restart", "idle_none_waits", "reaction"}
    text = "".join(operator_tables({key: value for key, value in found.items() if key not in newer}))

    assert "all jobs are submitted at once" in text
    assert "kill -9" not in text
