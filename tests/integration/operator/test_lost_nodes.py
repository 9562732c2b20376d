"""A node that does not return: its jobs start again elsewhere, without its kubelet's confirmation."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.operator.fixtures import SYSTEM_NAMESPACE
from tests.support.operator.job_history import JobHistory
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """One that gives a lost node up soon, and has the time to say before that its workers are ending."""
    config: dict[str, Any] = copy.deepcopy(FAST)
    config["timeouts"] |= {"lostNodeSeconds": 1, "lostNodeRemovalSeconds": 8}
    config["timeouts"] |= {"gangTimeoutSeconds": 60, "avoidNodeSeconds": 60}
    folder = tmp_path_factory.mktemp("lost")
    with OperatorProcess(folder, operator_kubeconfig, SYSTEM_NAMESPACE, config) as process:
        yield process
    print(process.log)


async def test_a_gang_on_a_node_that_is_lost_for_long_starts_elsewhere(
    operator: OperatorProcess, cluster: PlayedCluster, history: JobHistory
) -> None:
    first = await cluster.add_node("n1", gpus=2)
    await cluster.submit("gang", workers=2, backoffLimit=0)
    await cluster.run_all("gang", 2, attempt=1)
    await cluster.until_condition("gang", "Running")
    second = await cluster.add_node("n2", gpus=2)

    await cluster.set_ready(first, False)
    await history.until_condition("gang", "Placed", "False", reason="NodeLost")
    await history.until_waiting("gang", "WorkersEnding", attempt=1)
    pods = await cluster.run_all("gang", 2, attempt=2)  # the pods on the lost node were never ended
    assert {pod["spec"]["nodeName"] for pod in await cluster.pods("gang")} == {second}
    assert len(pods) == 2
    await cluster.until_condition("gang", "Running")
    status = (await cluster.job("gang"))["status"]
    assert status["restarts"] == 0, "nobody's failure"
    await cluster.until_event("gang", "Disrupted")


async def test_a_node_on_which_workers_fail_again_and_again_is_kept_away_from(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    bad = await cluster.add_node("n1")
    await cluster.submit("unlucky", backoffLimit=5)
    for attempt in (1, 2):
        (pod,) = await cluster.run_all("unlucky", 1, attempt=attempt)
        await cluster.until_condition("unlucky", "Running")
        await cluster.finish(pod, exit_code=1)
        await cluster.until_condition("unlucky", "Running", "False")
    good = await cluster.add_node("n2")
    (pod,) = await cluster.run_all("unlucky", 1, attempt=3)
    await cluster.until_condition("unlucky", "Running")
    status = (await cluster.job("unlucky"))["status"]
    assert [each["node"] for each in status["placement"]] == [good]
    assert [(each["node"], each["count"]) for each in status["failures"]] == [(bad, 2)]
