"""A gang that cannot start whole where it was placed is taken back, and tried elsewhere or later."""

from __future__ import annotations

import copy
import time
from typing import Any

from laneway.api.rfc3339 import format_time, parse_time
from laneway.operator.state.resources import GPU_NODES, NODES, PODS
from laneway.operator.watch.apiserver import Raw

from tests.support.operator.job_history import JobHistory, condition_of
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster, pinned_node
from tests.support.operator.waiting import until


def _config() -> dict[str, Any]:
    config: dict[str, Any] = copy.deepcopy(FAST)
    # Long enough to play what follows on a slow machine before a node that is avoided comes into question again.
    config["timeouts"] |= {
        "gangTimeoutSeconds": GANG_TIMEOUT_SECONDS,
        "avoidNodeSeconds": 12,
        "restartBackoffSeconds": BACKOFF_SECONDS,
    }
    return config


GANG_TIMEOUT_SECONDS = 12
BACKOFF_SECONDS = 5
OPERATOR_CONFIG = _config()


async def test_a_gang_that_does_not_start_in_time_is_rolled_back_and_tried_elsewhere(
    operator: OperatorProcess, cluster: PlayedCluster, history: JobHistory
) -> None:
    n1 = await cluster.add_node("n1", gpus=2)
    await cluster.submit("gang", workers=2)
    pods = await cluster.until_pods("gang", 2, attempt=1)
    await cluster.run(pods[0])  # the other never gets further than Pending
    await cluster.until_leaving("gang", 1)  # the other was never bound, or had failed: it is gone at once
    status = await history.until_waiting("gang", "NodesUnavailable", attempt=1)
    assert condition_of(status, "Placed")["status"] == "False"
    assert f"not all workers ran within {GANG_TIMEOUT_SECONDS} s" in status["waiting"]["message"]
    assert n1 in status["waiting"]["message"]

    n2 = await cluster.add_node("n2", gpus=2)

    async def placed_elsewhere() -> list[Raw] | None:
        # Where the other node comes late, the first one is not avoided any more: it is tried again, in vain.
        placed = [pod for pod in await cluster.pods("gang") if pinned_node(pod) == n2]
        return placed if len(placed) == 2 else None

    for pod in await until("the gang is on the other node", placed_elsewhere):
        await cluster.run(pod)
    await cluster.until_condition("gang", "Running")
    status = (await cluster.job("gang"))["status"]
    assert {each["node"] for each in status["placement"]} == {n2}
    assert status["restarts"] == 0, "nobody's failure"
    await cluster.until_event("gang", "Rollback")


async def test_a_worker_that_the_kubelet_refuses_rolls_its_gang_back(
    operator: OperatorProcess, cluster: PlayedCluster, history: JobHistory
) -> None:
    await cluster.add_node("n1", gpus=2)
    await cluster.submit("gang", workers=2, backoffLimit=0)
    pods = await cluster.until_pods("gang", 2, attempt=1)
    await cluster.run(pods[0])
    await cluster.refuse(pods[1], "UnexpectedAdmissionError", "not enough laneway.dev/gpu-percent")
    await cluster.until_leaving("gang", 1)  # the other was never bound, or had failed: it is gone at once
    status = await history.until_waiting("gang", "NodesUnavailable", attempt=1)
    assert "UnexpectedAdmissionError" in status["waiting"]["message"]
    assert [condition_of(status, each)["status"] for each in ("Placed", "Failed")] == ["False", "False"]

    def placed_again(found: Raw) -> bool:
        return found.get("attempt") == 2 and condition_of(found, "Placed")["status"] == "True"

    await history.until("gang", "the node is tried again after a while", placed_again)


async def test_a_job_that_starts_nowhere_leaves_its_gpu_to_others_for_longer_each_time(
    operator: OperatorProcess, cluster: PlayedCluster, history: JobHistory
) -> None:
    await cluster.add_node("n1")
    await cluster.add_node("n2")
    await cluster.submit("broken")
    await _is_refused(cluster, attempt=1)
    await _is_refused(cluster, attempt=2)  # elsewhere, at once
    status = await history.until_waiting("broken", "BackingOff", attempt=2)
    assert "UnexpectedAdmissionError" in status["waiting"]["message"]
    assert _wait_seconds(status) == BACKOFF_SECONDS
    assert status["unstartedAttempts"] == 2

    operator.kill()
    await operator.start_again(cluster.api)
    await _is_refused(cluster, attempt=3)
    status = await history.until_waiting("broken", "BackingOff", attempt=3)
    assert "3 attempts in a row ended before all workers ran" in status["waiting"]["message"]
    assert _wait_seconds(status) == 2 * BACKOFF_SECONDS
    await cluster.submit("other", workers=2)
    others = await cluster.run_all("other", 2)
    await cluster.until_waiting("broken", "GPUsBusy")

    for pod in others:
        await cluster.finish(pod)
    await cluster.run_all("broken", 1)  # where the other job came late, an attempt in between did not start
    await cluster.until_condition("broken", "Running")
    assert "unstartedAttempts" not in (await cluster.job("broken"))["status"]


async def _is_refused(cluster: PlayedCluster, attempt: int) -> None:
    (pod,) = await cluster.until_pods("broken", 1, attempt)
    await cluster.refuse(pod, "UnexpectedAdmissionError", "no such device")


def _wait_seconds(status: Raw) -> float:
    """How long the job waits by its status, from the end of its last attempt on."""
    until_time = status["waiting"]["message"].rpartition(" ")[2]
    ended = condition_of(status, "Placed")["lastTransitionTime"]
    return round(parse_time(until_time) - parse_time(ended), 3)


async def test_requests_beside_gpus_are_counted_and_a_refusal_of_kube_scheduler_is_remembered(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await cluster.add_node("n1", gpus=3)

    async def patch(path: str, **status: Any) -> None:
        merged = "application/merge-patch+json"
        await cluster.api.request("PATCH", path, body={"status": status}, content_type=merged)

    async def others(cpu: str) -> None:
        await patch(GPU_NODES.path(None, node, "status"), otherPodsRequests={"cpu": cpu, "pods": "1"})

    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    await patch(NODES.path(None, node, "status"), capacity=allocatable, allocatable=allocatable)
    await others("1")
    trainer = {"name": "trainer", "image": "i", "resources": {"requests": {"cpu": "2"}}}
    for name in ("first", "second"):
        await cluster.submit(name, template={"spec": {"containers": [trainer]}})
        if name == "first":
            await cluster.run_all("first", 1)
    waiting = await cluster.until_waiting("second", "HostResourcesBusy")
    assert f"{node} has 1 CPU left" in waiting["message"]

    await others("0")
    (pod,) = await cluster.until_pods("second", 1)
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no volume"}
    condition = {**refused, "lastTransitionTime": format_time(time.time())}
    await patch(PODS.path(cluster.namespace, pod["metadata"]["name"], "status"), conditions=[condition])
    await cluster.until_waiting("second", "NodesUnavailable")
    refusal = (await cluster.job("second"))["status"]["schedulerRefusal"]
    assert [(each["node"], each["available"]["cpu"]) for each in refusal["nodes"]] == [(node, "4000m")]
