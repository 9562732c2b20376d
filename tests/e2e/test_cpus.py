"""CPUs of running workers are lent and given back on real kubelets, and no container restarts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from laneway.api.pod_requests import amounts, pod_requests, total

from hack.cluster.probes import wait_until
from tests.e2e.conftest import Bench, Laneway
from tests.e2e.manifests import small_job
from tests.e2e.node_view import running

_DIVIDES = (
    *("--set", "operator.config.scheduling.allocation.policy=proportional"),
    *("--set", "operator.config.scheduling.spareCPUPercent=0"),
)
_REQUEST_MILLIS = 200
_LEFT_MILLIS = 50
"""Of a node's CPUs, beside what both jobs request: less than the first is lent, which is 100 at least."""


@pytest.fixture
def divides(laneway: Laneway) -> Iterator[None]:
    """The operator divides CPUs."""
    laneway.installation.upgrade(*_DIVIDES)
    yield
    laneway.installation.upgrade()


def a_job(name: str, node: str, cpu_millis: int) -> dict[str, Any]:
    """A job with two GPUs of a node, whose CPUs are limited to what it requests."""
    job = small_job(name, spec={"gpus": {"type": "Count", "count": 2}}, tolerations=[])
    pod_spec = job["spec"]["template"]["spec"]
    pod_spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    resources = {"cpu": f"{cpu_millis}m", "memory": "128Mi"}
    pod_spec["containers"][0]["resources"] = {"requests": resources, "limits": resources}
    return job


def idle_millis(bench: Bench, node: str) -> int:
    """CPUs of a node that no pod beside the jobs requests, once the pods of the operator before and of earlier tests are gone."""
    kubectl = bench.laneway.kubectl
    offered = amounts(kubectl.get("node", node)["status"]["allocatable"])["cpu"]
    place = ("--all-namespaces", "--field-selector", f"spec.nodeName={node}")

    def published_millis() -> int:
        return amounts(kubectl.get("gpunode", node)["status"]["otherPodsRequests"])["cpu"]

    def settled() -> bool:
        pods = kubectl.get("pods", *place)["items"]
        stays = [pod for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")]
        requested = total(pod_requests(pod["spec"]) for pod in stays)["cpu"]
        return (
            not any("deletionTimestamp" in pod["metadata"] for pod in pods)
            and published_millis() == requested
        )

    wait_until(settled, f"{node} publishes what its pods request", 120)
    return offered - published_millis()


def has_millis(pod: dict[str, Any]) -> int:
    """CPUs that the kubelet has given a pod's container, in its request and its limit; 0 while it changes them."""
    (status,) = pod["status"]["containerStatuses"]
    given = [(status.get("resources") or {}).get(kind, {}).get("cpu", "0") for kind in ("requests", "limits")]
    wanted = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    found = {amounts({"cpu": text})["cpu"] for text in (*given, wanted)}
    return found.pop() if len(found) == 1 else 0


def test_cpus_are_lent_given_back_before_another_worker_starts_and_lent_again(
    bench: Bench, divides: None, gpus: dict[str, list[str]]
) -> None:
    node = min(gpus)
    idle = idle_millis(bench, node)

    def the_pod() -> dict[str, Any]:
        (pod,) = bench.jobs.pods("first")
        return pod

    bench.jobs.apply([a_job("first", node, _REQUEST_MILLIS)])
    bench.jobs.wait(["first"], running, "running", 240)
    before = the_pod()["status"]["containerStatuses"][0]["containerID"]
    wait_until(lambda: has_millis(the_pod()) > _REQUEST_MILLIS, "the first job has idle CPUs too", 240)

    # The second needs nearly all that the first was lent.
    bench.jobs.apply([a_job("second", node, idle - _REQUEST_MILLIS - _LEFT_MILLIS)])
    wait_until(lambda: bool(bench.jobs.pods("second")), "the second job's pod is created", 240)
    assert has_millis(the_pod()) == _REQUEST_MILLIS, "its CPUs are there before it"
    views = bench.jobs.wait(["first", "second"], running, "running side by side", 240)
    assert views["second"].status.attempt == 1

    bench.laneway.kubectl.run("delete", "trainingjob", "second", "--namespace", bench.namespace)
    wait_until(lambda: has_millis(the_pod()) > _REQUEST_MILLIS, "the first job has idle CPUs again", 240)
    (status,) = the_pod()["status"]["containerStatuses"]
    assert (status["containerID"], status["restartCount"]) == (before, 0)
    assert bench.jobs.view("first").status.attempt == 1
