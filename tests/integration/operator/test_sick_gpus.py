"""A node's agent takes a GPU out of use: its jobs move elsewhere, and it gets no new ones."""

from __future__ import annotations

from typing import Any

from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until

PATIENCE_SECONDS = 600
OPERATOR_CONFIG: dict[str, Any] = {
    **FAST,
    "timeouts": {**FAST["timeouts"], "unhealthyGpuSeconds": PATIENCE_SECONDS},
}
"""Longer than any test: a gang is moved off a GPU only where a test says that the GPU has been out of use for as long."""

XID = "XID 79 (GPU has fallen off the bus); it needs a reset"


async def test_a_gang_is_moved_off_a_gpu_that_stays_out_of_use(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    n1 = await cluster.add_node("n1", gpus=2)
    await cluster.submit("gang", workers=2, backoffLimit=0)
    await cluster.run_all("gang", 2, attempt=1)
    await cluster.until_condition("gang", "Running")

    await cluster.set_health(n1, 0, XID, for_seconds=PATIENCE_SECONDS)
    placed = await cluster.until_condition("gang", "Placed", "False", reason="GPUUnhealthy")
    assert f"GPU-{n1}-0 of {n1}, which is out of use: {XID}" in placed["message"]
    await cluster.until_leaving("gang", 2)
    waiting = await cluster.until_waiting("gang", "NodesUnavailable")
    assert f"1 of {n1} is unhealthy" in waiting["message"]

    n2 = await cluster.add_node("n2")
    await cluster.run_all("gang", 2, attempt=2)
    await cluster.until_condition("gang", "Running")
    status = (await cluster.job("gang"))["status"]
    gpus = {gpu for worker in status["placement"] for gpu in worker["gpus"]}
    assert gpus == {f"GPU-{n1}-1", f"GPU-{n2}-0"}, "the other GPU of that node is used"
    assert (status["restarts"], status["preemptions"]) == (0, 0), "nobody's failure"
    await cluster.until_event("gang", "Disrupted")


async def test_a_worker_that_fails_with_its_gpu_is_started_again_elsewhere(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    n1 = await cluster.add_node("n1", gpus=2)
    await cluster.submit("hit", backoffLimit=0)
    (pod,) = await cluster.run_all("hit", 1, attempt=1)
    await cluster.until_condition("hit", "Running")
    status = (await cluster.job("hit"))["status"]
    (gpu,) = status["placement"][0]["gpus"]

    await cluster.set_health(n1, int(gpu[-1]), XID)
    usable = f'laneway_usable_gpus{{model="{cluster.model}"}} 1.0'

    async def seen() -> bool:
        # Nodes and pods have watches of their own, so the operator may see the failure first.
        return usable in operator.get("/metrics")

    await until("the operator knows that the GPU is out of use", seen)
    await cluster.finish(pod, exit_code=1, message="RuntimeError: CUDA error: unspecified launch failure")
    await cluster.run_all("hit", 1, attempt=2)
    await cluster.until_condition("hit", "Running")
    status = (await cluster.job("hit"))["status"]
    assert status["placement"][0]["gpus"] != [gpu]
    assert status["restarts"] == 0


async def test_a_job_gets_the_gpu_that_its_node_takes_back_into_use(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    n1 = await cluster.add_node("n1")
    await cluster.set_health(n1, 0, XID)
    await cluster.submit("waits")
    await cluster.until_waiting("waits", "NodesUnavailable")
    await cluster.set_health(n1, 0)
    await cluster.run_all("waits", 1)
    await cluster.until_condition("waits", "Running")
