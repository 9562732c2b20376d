"""Nothing that a pod's author writes gives it more than its share: such a pod is refused, or its claims count for nothing."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api.names import SHARING_ANNOTATION, SPANS_GPUS_ANNOTATION

from hack.cluster.probes import wait_until
from hack.cluster.progress import ClusterError
from tests.e2e.conftest import Bench
from tests.e2e.crowd import Crowd
from tests.e2e.manifests import OPERATOR_USER, session_pod, training_job, worker_metadata

EXCLUSIVE = {SHARING_ANNOTATION: "Exclusive", SPANS_GPUS_ANNOTATION: "true"}


def setting(job_or_pod: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    """The object with one more variable in its trainer's environment."""
    spec = job_or_pod["spec"]
    container = spec.get("template", {"spec": spec})["spec"]["containers"][0]
    container["env"] = [*container.get("env", ()), {"name": name, "value": value}]
    return job_or_pod


def test_a_pod_that_asks_for_every_gpu_by_its_environment_is_refused(bench: Bench) -> None:
    with pytest.raises(ClusterError) as raised:
        bench.jobs.apply([setting(session_pod("greedy", 1), "NVIDIA_VISIBLE_DEVICES", "all")])
    assert "container trainer sets NVIDIA_VISIBLE_DEVICES, which is reserved" in str(raised.value)


def test_a_job_whose_template_does_so_is_refused_at_once(bench: Bench) -> None:
    bench.jobs.apply([setting(training_job("greedy"), "NVIDIA_VISIBLE_DEVICES", "all")])
    job = bench.jobs.wait(["greedy"], lambda job: job.state == "InvalidTemplate", "refused", 120)["greedy"]
    assert job.status.waiting is not None
    assert "template.spec.containers[0].env sets NVIDIA_VISIBLE_DEVICES" in job.status.waiting.message
    assert bench.jobs.pods() == []


def test_one_percent_does_not_take_a_gpu(bench: Bench, crowd: Crowd, gpus: dict[str, list[str]]) -> None:
    """By the annotation the pod is refused. Where the policy is off it runs, on each GPU, and a job of 90 percent runs beside it."""
    with pytest.raises(ClusterError) as raised:
        bench.jobs.apply([session_pod("greedy", 1, metadata={"annotations": EXCLUSIVE})])
    assert f"metadata sets the annotation {SPANS_GPUS_ANNOTATION}" in str(raised.value)

    # The policy lets the operator's account write these, as it lets everybody where it is off. The author owns a TrainingJob.
    owner = crowd.own_job("greedy")
    places = [(node, uuid) for node, uuids in gpus.items() for uuid in uuids]
    forged = [
        session_pod(name, 1, node=node, metadata=worker_metadata(name, owner, uuid, **EXCLUSIVE))
        for number, (node, uuid) in enumerate(places)
        for name in [f"greedy-{number}"]
    ]
    crowd.create(forged, user=OPERATOR_USER)
    plain = [session_pod(f"plain-{node}", 1, node=node, metadata={"annotations": EXCLUSIVE}) for node in gpus]
    crowd.create(plain, user=OPERATOR_USER)
    pods = [pod["metadata"]["name"] for pod in (*forged, *plain)]
    wait_until(lambda: crowd.running().keys() == set(pods), "the claims run", 240)
    sessions = crowd.wait_until_connected(pods)
    assert {sessions[name]["gpu"] for name in pods[: len(forged)]} == {uuid for _, uuid in places}

    spec = {"gpus": {"type": "Share", "sharePercent": 90}}
    bench.jobs.apply([training_job("honest", spec=spec, steps=5)])
    job = bench.jobs.wait(["honest"], lambda job: job.ended, "trained", 240, bench.follow)["honest"]
    assert job.has("Complete"), job.status
