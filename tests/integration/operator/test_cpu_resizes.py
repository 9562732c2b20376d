"""CPUs of running workers, changed in place with the rights that the chart gives, on a real API server. The test plays the kubelet."""

from __future__ import annotations

from typing import Any

from laneway.api.names import GPU_PERCENT
from laneway.operator.state.records.worker_pod import parse_worker_pod
from laneway.operator.state.resources import GPU_NODES, NODES, PODS
from laneway.operator.watch.apiserver import Raw

from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

OPERATOR_CONFIG: dict[str, Any] = {
    **FAST,
    "scheduling": {
        **FAST["scheduling"],
        "allocation": {"policy": "proportional"},
        "spareCPUPercent": 0,
    },
}
_MERGE = "application/merge-patch+json"


async def add_node(cluster: PlayedCluster) -> str:
    """A node with two GPUs and eight CPUs, on which nothing else runs."""
    node = await cluster.add_node("n1", gpus=2)
    offered = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU_PERCENT: "200"}
    for path, status in (
        (NODES.path(name=node, subresource="status"), {"capacity": offered, "allocatable": offered}),
        (GPU_NODES.path(name=node, subresource="status"), {"otherPodsRequests": {"cpu": "0", "pods": "0"}}),
    ):
        await cluster.api.request("PATCH", path, body={"status": status}, content_type=_MERGE)
    return node


async def submit(cluster: PlayedCluster, name: str, cpus: str) -> None:
    """A job with a GPU, and as much CPU as it may use."""
    resources = {"requests": {"cpu": cpus, "memory": "1Gi"}, "limits": {"cpu": cpus, "memory": "1Gi"}}
    container = {"name": "trainer", "image": "example.invalid/trainer", "resources": resources}
    await cluster.submit(name, template={"spec": {"containers": [container]}})


async def give(cluster: PlayedCluster, pod: Raw, cpus: str) -> None:
    """Say as the kubelet what the pod's container has."""
    name = pod["metadata"]["name"]
    found = await cluster.api.request("GET", PODS.path(cluster.namespace, name))
    container = {
        **found["status"]["containerStatuses"][0],
        "allocatedResources": {"cpu": cpus, "memory": "1Gi"},
        "resources": {"requests": {"cpu": cpus, "memory": "1Gi"}, "limits": {"cpu": cpus, "memory": "1Gi"}},
    }
    body = {"status": {"containerStatuses": [container]}}
    path = PODS.path(cluster.namespace, name, "status")
    await cluster.api.request("PATCH", path, body=body, content_type=_MERGE)


async def until_asked(cluster: PlayedCluster, pod: Raw, cpus: str) -> Raw:
    """Wait until a pod is to have these CPUs; return it."""

    async def look() -> Raw | None:
        found = await cluster.api.request("GET", PODS.path(cluster.namespace, pod["metadata"]["name"]))
        resources = found["spec"]["containers"][0]["resources"]
        asked = (resources["requests"]["cpu"], resources["limits"]["cpu"])
        return found if asked == (cpus, cpus) else None

    return await until(f"{pod['metadata']['name']} is to have {cpus} CPUs", look)


async def test_idle_cpus_are_lent_and_given_back_before_another_job_starts(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await add_node(cluster)
    await submit(cluster, "first", "2")
    (first,) = await cluster.run_all("first", 1)
    await give(cluster, first, "2")
    grown = await until_asked(cluster, first, "4")
    assert grown["status"]["qosClass"] == "Guaranteed"
    assert grown["metadata"]["uid"] == first["metadata"]["uid"]
    assert (found := parse_worker_pod(grown).cpus) is not None
    assert found.resized, "an operator without a policy knows what to undo"
    await give(cluster, first, "4")

    async def shown() -> bool:
        status = (await cluster.job("first"))["status"]
        return status.get("cpus") == {"allocated": "4", "requested": "2", "message": ""}

    await until("the status shows the CPUs", shown)

    # Five CPUs are not there until the first job has given one back.
    await submit(cluster, "second", "5")
    await until_asked(cluster, first, "3")
    placed = await cluster.until_condition("second", "Placed")
    assert placed["status"] == "True"
    assert await cluster.pods("second") == []
    await give(cluster, first, "3")
    (second,) = await cluster.run_all("second", 1)
    await give(cluster, second, "5")
    await cluster.until_condition("second", "Running")
    assert (await cluster.job("first"))["status"]["attempt"] == 1

    # The first gets its part again when the second has ended.
    await cluster.finish(second)
    await until_asked(cluster, first, "4")


async def test_a_refusal_is_told_and_not_repeated(operator: OperatorProcess, cluster: PlayedCluster) -> None:
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "3"}}]},
    }
    await cluster.api.request("POST", f"/api/v1/namespaces/{cluster.namespace}/limitranges", body=limits)
    await add_node(cluster)
    await submit(cluster, "bounded", "2")
    (pod,) = await cluster.run_all("bounded", 1)
    await give(cluster, pod, "2")
    await cluster.until_event("bounded", "CPUsNotChanged")
    refusals = operator.log.count('"CPUs not changed"')
    await submit(cluster, "beside", "1")
    await cluster.run_all("beside", 1)
    await cluster.until_condition("beside", "Running")
    assert operator.log.count('"CPUs not changed"') - refusals <= 1, "only the new job's own"
    assert (await cluster.events("bounded")).count("CPUsNotChanged") == 1
