"""Pods that the operator binds itself, with the rights that the chart gives it."""

from __future__ import annotations

from typing import Any

from laneway.api.names import ATTEMPT_LABEL, GPU_PERCENT
from laneway.operator.state.resources import GPU_NODES, NODES
from laneway.operator.watch.apiserver import Raw

from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

OPERATOR_CONFIG: dict[str, Any] = {**FAST, "bindPods": True}


async def add_known_node(cluster: PlayedCluster, name: str, gpus: int) -> str:
    """Add a node whose kubelet and agent say what it has left."""
    node = await cluster.add_node(name, gpus=gpus)

    async def say(path: str, **status: Any) -> None:
        merged = "application/merge-patch+json"
        await cluster.api.request("PATCH", path, body={"status": status}, content_type=merged)

    offered = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU_PERCENT: str(100 * gpus)}
    await say(NODES.path(name=node, subresource="status"), capacity=offered, allocatable=offered)
    await say(GPU_NODES.path(name=node, subresource="status"), otherPodsRequests={"cpu": "1", "pods": "1"})
    return node


async def test_a_gang_is_bound_when_it_is_created_and_one_with_a_claim_is_not(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await add_known_node(cluster, "n1", gpus=4)
    # The operator may see the node's resources after a job that is submitted now: it then leaves this one to kube-scheduler.
    await cluster.submit("first")
    (pod,) = await cluster.until_pods("first", 1)
    await (cluster.start(pod) if "nodeName" in pod["spec"] else cluster.run(pod))
    await cluster.until_condition("first", "Running")
    await cluster.submit("gang", workers=2)
    pods = await cluster.until_pods("gang", 2)
    assert [pod["spec"]["nodeName"] for pod in pods] == [node, node]
    for pod in pods:
        await cluster.start(pod)
    await cluster.until_condition("gang", "Running")
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    trainer = {"name": "trainer", "image": "example.invalid/trainer"}
    await cluster.submit("claims", template={"spec": {"containers": [trainer], "volumes": [claim]}})
    (pod,) = await cluster.until_pods("claims", 1)
    assert "nodeName" not in pod["spec"]


def _attempt(pod: Raw) -> str:
    return str(pod["metadata"]["labels"][ATTEMPT_LABEL])


async def test_a_gang_that_a_kubelet_refuses_is_next_left_to_kube_scheduler(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await add_known_node(cluster, "n1", gpus=2)
    await cluster.submit("gang", workers=2, backoffLimit=0)
    pods = await cluster.until_pods("gang", 2, attempt=1)
    await cluster.refuse(pods[1], "OutOfcpu", "Node didn't have enough resource: cpu")

    async def tried_again() -> list[Raw] | None:
        await cluster.let_go("gang")
        pods = await cluster.pods("gang")
        return pods if [_attempt(pod) for pod in pods] == ["2", "2"] else None

    again = await until("the gang is tried again", tried_again)
    assert all("nodeName" not in pod["spec"] for pod in again)
    status = (await cluster.job("gang"))["status"]
    assert status["schedulerRefusal"]["nodes"] == []  # only time lifts what a kubelet refused
    assert status["restarts"] == 0
    for pod in again:
        await cluster.run(pod)
    await cluster.until_condition("gang", "Running")
    assert "schedulerRefusal" not in (await cluster.job("gang"))["status"]
