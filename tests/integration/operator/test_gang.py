"""A gang has all of its workers or none."""

from __future__ import annotations

from laneway.operator.state.resources import PODS

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until


async def test_a_pod_that_the_api_server_refuses_holds_no_gpu(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    container = {"name": "trainer", "image": "example.invalid/x", "imagePullPolicy": "Sometimes"}
    await cluster.submit("wrong", template={"spec": {"containers": [container]}})
    waiting = await cluster.until_waiting(
        "wrong", "InvalidTemplate"
    )  # a trial has shown that it would never be taken
    assert "imagePullPolicy" in waiting["message"]
    await cluster.submit("right")
    await cluster.run_all("right", 1)
    await cluster.until_condition("right", "Running")


async def test_a_strangers_pod_of_that_name_is_left_alone(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1")
    body = {
        "metadata": {"name": "mine-0"},
        "spec": {
            "containers": [{"name": "x", "image": "example.invalid/x"}],
            "automountServiceAccountToken": False,
        },
    }
    await cluster.api.request("POST", PODS.path(cluster.namespace), body=body)
    await cluster.submit("mine")
    waiting = await cluster.until_waiting("mine", "BackingOff")
    assert "mine-0" in waiting["message"]
    stranger = await cluster.api.request("GET", PODS.path(cluster.namespace, "mine-0"))
    assert "ownerReferences" not in stranger["metadata"]


async def test_a_failed_worker_restarts_the_gang_until_the_limit(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    await cluster.submit("fails", workers=2, backoffLimit=1)
    first = await cluster.run_all("fails", 2, attempt=1)
    await cluster.until_condition("fails", "Running")
    await cluster.finish(first[1], exit_code=3)
    await cluster.until_leaving("fails", 1)  # the failed one is gone at once

    second = await cluster.run_all("fails", 2, attempt=2)
    await cluster.until_condition("fails", "Running")
    assert (await cluster.job("fails"))["status"]["restarts"] == 1
    message = "torch.OutOfMemoryError: tried to allocate 2.00 GiB, the limit is 1.00 GiB"
    await cluster.finish(second[0], exit_code=1, message=message)
    failed = await cluster.until_condition("fails", "Failed")
    assert "worker 0" in failed["message"]
    assert "exit code 1" in failed["message"]
    assert message in failed["message"]
    assert (await cluster.job("fails"))["status"]["restarts"] == 1
    pods = await cluster.pods("fails")
    assert "deletionTimestamp" not in pods[0]["metadata"], "the failed worker's logs stay"

    async def stopped() -> bool:
        return "deletionTimestamp" in (await cluster.pods("fails"))[1]["metadata"]

    await until("the worker that still runs is stopped", stopped)


async def test_a_deleted_worker_is_nobodys_failure(operator: OperatorProcess, cluster: PlayedCluster) -> None:
    await cluster.add_node("n1", gpus=2)
    await cluster.submit("hit", workers=2, backoffLimit=0)
    pods = await cluster.run_all("hit", 2, attempt=1)
    await cluster.until_condition("hit", "Running")
    await cluster.api.request("DELETE", PODS.path(cluster.namespace, pods[1]["metadata"]["name"]))
    await cluster.until_leaving("hit", 2)
    await cluster.run_all("hit", 2, attempt=2)
    await cluster.until_condition("hit", "Running")
    assert (await cluster.job("hit"))["status"]["restarts"] == 0
    await cluster.until_event("hit", "Disrupted")
