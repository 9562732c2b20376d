"""A gang that cannot start whole where it was placed is taken back, and tried elsewhere or later."""

from __future__ import annotations

import copy
from typing import Any

from tests.integration.operator.operator_process import FAST, OperatorProcess
from tests.integration.operator.played_cluster import PlayedCluster


def _config() -> dict[str, Any]:
    config: dict[str, Any] = copy.deepcopy(FAST)
    # Long enough to play what follows before a node that is avoided comes into question again.
    config["patience"] |= {"gangTimeoutSeconds": 8, "avoidNodeSeconds": 8}
    return config


OPERATOR_CONFIG = _config()


async def test_a_gang_that_does_not_start_in_time_is_rolled_back_and_tried_elsewhere(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    n1 = await cluster.add_node("n1", gpus=2)
    await cluster.submit("gang", workers=2)
    pods = await cluster.until_pods("gang", 2, attempt=1)
    await cluster.run(pods[0])  # the other never gets further than Pending
    await cluster.until_condition("gang", "Placed", "False")
    await cluster.until_leaving("gang", 1)  # the other was never bound, or had failed: it is gone at once
    waiting = await cluster.until_waiting("gang", "NodesUnavailable")
    assert "not all workers ran within 8 s" in waiting["message"]
    assert n1 in waiting["message"]

    await cluster.add_node("n2", gpus=2)
    await cluster.run_all("gang", 2, attempt=2)
    await cluster.until_condition("gang", "Running")
    status = (await cluster.job("gang"))["status"]
    assert {each["node"] for each in status["placement"]} == {f"{cluster.namespace}-n2"}
    assert status["restarts"] == 0, "nobody's failure"
    assert "Rollback" in await cluster.events("gang")


async def test_a_worker_that_the_kubelet_refuses_rolls_its_gang_back(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    await cluster.add_node("n1", gpus=2)
    await cluster.submit("gang", workers=2, backoffLimit=0)
    pods = await cluster.until_pods("gang", 2, attempt=1)
    await cluster.run(pods[0])
    await cluster.refuse(pods[1], "UnexpectedAdmissionError", "not enough laneway.dev/gpu-percent")
    await cluster.until_condition("gang", "Placed", "False")
    await cluster.until_leaving("gang", 1)  # the other was never bound, or had failed: it is gone at once
    waiting = await cluster.until_waiting("gang", "NodesUnavailable")
    assert "UnexpectedAdmissionError" in waiting["message"]
    assert (await cluster.condition("gang", "Failed"))["status"] == "False"
    await cluster.until_pods("gang", 2, attempt=2)  # the node is tried again after a while
