"""Making way without ending: the operator orders, the node (played here) does, and says so."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api import quantity
from laneway.operator.apiserver import Raw

from tests.integration.operator.conftest import SYSTEM_NAMESPACE
from tests.integration.operator.operator_process import FAST, OperatorProcess
from tests.integration.operator.played_cluster import GIB, PlayedCluster
from tests.integration.operator.waiting import until

PARK_SECONDS = 8
"""Long enough for the tests in which the node does answer, and short enough for the one in which it does not."""


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """An operator for whom half of what a GPU offers is for jobs that stand aside."""
    config: dict[str, Any] = copy.deepcopy(FAST)
    config["scheduling"]["activePercent"] = 100
    config["patience"]["parkSeconds"] = PARK_SECONDS
    config["lease"] = {"durationSeconds": 4, "renewDeadlineSeconds": 3, "retrySeconds": 1}
    folder = tmp_path_factory.mktemp("parking")
    with OperatorProcess(folder, operator_kubeconfig, SYSTEM_NAMESPACE, config) as process:
        yield process
    print(process.log)


async def _runs(cluster: PlayedCluster, job: str, persistent_gib: int) -> Raw:
    """Let a job run, with a client whose session its node reports; return its pod."""
    (pod,) = await cluster.run_all(job, 1)
    await cluster.until_condition(job, "Running")
    pod = (await cluster.pods(job))[0]
    figures = {"persistentBytes": persistent_gib * GIB, "ephemeralBytes": GIB, "profiled": True}
    await cluster.add_session(pod, 0, **figures)

    async def measured() -> bool:
        return "profile" in (await cluster.job(job))["status"]

    await until("the profile is in the status", measured)
    return pod


async def _until_told(cluster: PlayedCluster, **jobs: set[str]) -> None:
    """Wait for events of these reasons."""

    async def told() -> bool:
        return all([reasons <= set(await cluster.events(job)) for job, reasons in jobs.items()])

    await until(f"events {jobs}", told)


async def test_a_job_pauses_for_another_and_goes_on_after_it_with_the_operator_killed_in_between(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await cluster.add_node("n1", percent=200)
    urgent = await cluster.add_priority_class("urgent", 1000)
    await cluster.submit("long")
    long = await _runs(cluster, "long", persistent_gib=10)
    uid = long["metadata"]["uid"]

    await cluster.submit("short", priorityClassName=urgent)  # of the same template: what it needs is known
    preempted = await cluster.until_condition("long", "Preempted")
    assert preempted["reason"] == "HigherPriority"
    assert f"{cluster.namespace}/short" in preempted["message"]
    await cluster.until_orders(node, {uid: "Pause"})
    status = (await cluster.job("long"))["status"]
    assert status["preemption"]["depth"] == "Pause"
    assert status["preemption"]["beneficiary"] == f"{cluster.namespace}/short"
    await _until_told(
        cluster, long={"Preempted"}, short={"Preempting"}
    )  # events do not outlive whoever is to send them
    operator.kill()
    await cluster.set_sessions(node, [long], state="Paused")
    assert await cluster.pods("short") == [], "nothing was promised before the node said that it was free"
    operator.start()

    paused = await cluster.until_condition("long", "Running", "False", reason="Paused")
    assert "short" in paused["message"]
    (short,) = await cluster.run_all("short", 1)
    short = (await cluster.pods("short"))[0]
    assert short["spec"]["nodeName"] == node
    attained = quantity.parse((await cluster.job("long"))["status"]["attainedService"])
    assert attained > 0
    assert (await cluster.condition("long", "Placed"))["status"] == "True"
    await cluster.until_waiting("long", "GPUsBusy")
    await cluster.until_orders(node, {uid: "Pause"})

    await cluster.finish(short)
    await cluster.until_condition("short", "Succeeded")
    await cluster.until_orders(node, {})
    await cluster.until_condition("long", "Running", reason="Resumed")
    await cluster.until_condition("long", "Preempted", "False", reason="Resumed")
    status = (await cluster.job("long"))["status"]
    assert (status["attempt"], status["preemptions"], status["restarts"]) == (1, 1, 0)
    assert "preemption" not in status
    assert [pod["metadata"]["uid"] for pod in await cluster.pods("long")] == [uid], "it never ended"
    await _until_told(cluster, long={"Paused", "Resumed"})


async def test_a_job_whose_node_does_not_answer_ends_instead(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await cluster.add_node("n1", percent=200)
    urgent = await cluster.add_priority_class("urgent", 1000)
    await cluster.submit("long")
    long = await _runs(cluster, "long", persistent_gib=60)
    uid = long["metadata"]["uid"]
    container = {"name": "trainer", "image": "example.invalid/other"}
    await cluster.submit("short", priorityClassName=urgent, template={"spec": {"containers": [container]}})
    await cluster.until_orders(node, {uid: "Offload"})  # nothing is known of the other: it counts whole
    assert (await cluster.job("long"))["status"]["preemption"]["depth"] == "Offload"

    note = "process 7 refused: it has captured CUDA graphs"
    await cluster.set_sessions(node, [long], state="Paused", message=note)
    await cluster.until_condition("long", "Placed", "False", reason="Preempted")
    preempted = await cluster.condition("long", "Preempted")
    assert f"had not {PARK_SECONDS} s later" in preempted["message"]
    assert note in preempted["message"]
    await cluster.until_orders(node, {uid: "Offload"})  # it saves its checkpoint where it stands
    await cluster.until_leaving("long", 1)
    await cluster.set_sessions(node, [long], state="Ended")
    await cluster.until_orders(node, {})
    await cluster.until_pods("short", 1)
    status = (await cluster.job("long"))["status"]
    assert (status["preemptions"], status["preemption"]["depth"]) == (1, "Evict")
