"""Preemption in place: the operator orders, the node (played here) does, and says so."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.operator.watch.apiserver import Raw

from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.operator.fixtures import SYSTEM_NAMESPACE, played_cluster
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import GIB, PlayedCluster
from tests.support.operator.waiting import until

PAUSE_SECONDS = 30
"""Long enough for a node to answer on a slow machine. The test waits out this timeout in parallel with its other steps."""


@pytest.fixture(scope="module")
def operator(
    operator_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """An operator whose jobs share no GPUs: what a GPU offers beyond 100 percent is for paused and offloaded jobs."""
    config: dict[str, Any] = copy.deepcopy(FAST)
    config["timeouts"]["pauseSeconds"] = PAUSE_SECONDS
    folder = tmp_path_factory.mktemp("pausing")
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


async def _until_events(cluster: PlayedCluster, **jobs: set[str]) -> None:
    """Wait for events of these reasons."""

    async def recorded() -> bool:
        return all([reasons <= set(await cluster.events(job)) for job, reasons in jobs.items()])

    await until(f"events {jobs}", recorded)


NOTE = "process 7 refused: it has captured CUDA graphs"


async def _is_told_in_vain(cluster: PlayedCluster) -> Raw:
    """Have a job told to move its memory, which its client refuses; return its pod."""
    node = await cluster.add_node("n1", percent=200)
    urgent = await cluster.add_priority_class("urgent", 1000)
    await cluster.submit("long")
    long = await _runs(cluster, "long", persistent_gib=60)
    container = {"name": "trainer", "image": "example.invalid/other"}
    await cluster.submit("short", priorityClassName=urgent, template={"spec": {"containers": [container]}})
    await cluster.until_orders(
        node, {long["metadata"]["uid"]: "Offload"}
    )  # nothing is known of the other: it counts whole
    assert (await cluster.job("long"))["status"]["preemption"]["action"] == "Offload"
    await cluster.set_sessions(node, [long], state="Paused", message=NOTE)
    return long


async def _ends_instead(cluster: PlayedCluster, long: Raw) -> None:
    """Wait until the job has had its time to offload and is evicted instead."""
    node, uid = long["spec"]["nodeName"], long["metadata"]["uid"]
    await cluster.until_condition("long", "Placed", "False", reason="Preempted")
    preempted = await cluster.condition("long", "Preempted")
    assert f"had not {PAUSE_SECONDS} s later" in preempted["message"]
    assert NOTE in preempted["message"]
    await cluster.until_orders(node, {uid: "Offload"})  # it saves its checkpoint at its current step
    await cluster.until_leaving("long", 1)
    await cluster.set_sessions(node, [long], state="Ended")
    await cluster.until_orders(node, {})
    await cluster.until_pods("short", 1)
    status = (await cluster.job("long"))["status"]
    assert (status["preemptions"], status["preemption"]["action"]) == (1, "Evict")


async def test_a_job_pauses_for_another_and_goes_on_after_it_with_the_operator_killed_in_between(
    operator: OperatorProcess, cluster: PlayedCluster, control_plane: LoopbackControlPlane
) -> None:
    """Meanwhile another job does not follow its order, and is evicted instead."""
    async with played_cluster(control_plane) as elsewhere:
        told_in_vain = await _is_told_in_vain(elsewhere)
        await _pauses_and_goes_on(operator, cluster)
        await _ends_instead(elsewhere, told_in_vain)


async def _pauses_and_goes_on(operator: OperatorProcess, cluster: PlayedCluster) -> None:
    node = await cluster.add_node("n1", percent=200)
    urgent = await cluster.add_priority_class("urgent", 1000)
    await cluster.submit("long")
    long = await _runs(cluster, "long", persistent_gib=10)
    uid = long["metadata"]["uid"]

    await cluster.submit("short", priorityClassName=urgent)  # of the same template, so its needs are known
    preempted = await cluster.until_condition("long", "Preempted")
    assert preempted["reason"] == "HigherPriority"
    assert f"{cluster.namespace}/short" in preempted["message"]
    await cluster.until_orders(node, {uid: "Pause"})
    status = (await cluster.job("long"))["status"]
    assert status["preemption"]["action"] == "Pause"
    assert status["preemption"]["preemptor"] == f"{cluster.namespace}/short"
    await _until_events(
        cluster, long={"Preempted"}, short={"Preempting"}
    )  # unsent events are lost with their replica
    operator.kill()
    await cluster.set_sessions(node, [long], state="Paused")
    assert await cluster.pods("short") == [], "nothing was promised before the node said that it was free"
    await operator.start_again(cluster.api)

    paused = await cluster.until_condition("long", "Running", "False", reason="Paused")
    assert "short" in paused["message"]
    (short,) = await cluster.run_all("short", 1)
    short = (await cluster.pods("short"))[0]
    assert short["spec"]["nodeName"] == node
    attained = (await cluster.job("long"))["status"]["attainedServiceGPUMilliseconds"] / 1000
    assert attained > 0
    assert (await cluster.condition("long", "Placed"))["status"] == "True"
    await cluster.until_waiting("long", "GPUsBusy")
    await cluster.until_orders(node, {uid: "Pause"})

    await cluster.finish(short)
    await cluster.until_condition("short", "Complete")
    await cluster.until_orders(node, {})
    await cluster.until_condition("long", "Running", reason="Resumed")
    await cluster.until_condition("long", "Preempted", "False", reason="Resumed")
    status = (await cluster.job("long"))["status"]
    assert (status["attempt"], status["preemptions"], status["restarts"]) == (1, 1, 0)
    assert "preemption" not in status
    assert [pod["metadata"]["uid"] for pod in await cluster.pods("long")] == [uid], "it never ended"
    await _until_events(cluster, long={"Paused", "Resumed"})


async def test_a_paused_job_moves_its_memory_away_when_another_needs_it(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    node = await cluster.add_node("n1", percent=200)
    urgent = await cluster.add_priority_class("urgent", 1000)
    # Their needs are unknown, so they count with their whole share: 40 GiB each.
    half: Raw = {"priorityClassName": urgent, "gpus": {"type": "Share", "sharePercent": 50}}
    await cluster.submit("long")
    long = await _runs(cluster, "long", persistent_gib=10)
    uid = long["metadata"]["uid"]
    await cluster.submit("first", **half)
    await cluster.until_orders(node, {uid: "Pause"})
    await cluster.set_sessions(node, [long], state="Paused")
    paused = await cluster.until_condition("long", "Running", "False", reason="Paused")
    await cluster.run_all("first", 1)
    await cluster.until_condition("first", "Running")

    await cluster.submit("second", **half)
    await cluster.until_orders(node, {uid: "Offload"})
    preemption = (await cluster.job("long"))["status"]["preemption"]
    assert (preemption["action"], preemption["preemptor"]) == ("Offload", f"{cluster.namespace}/second")
    assert preemption["costMilliseconds"] == 2000, "10 GiB there and back, and nothing for stopping again"
    assert await cluster.pods("second") == []
    assert await cluster.condition("long", "Running") == paused
    await cluster.set_sessions(node, [long], state="Offloaded", persistentBytes=0, offloadedBytes=10 * GIB)
    await cluster.until_condition("long", "Running", "False", reason="Offloaded")
    await cluster.run_all("second", 1)
    await cluster.until_condition("second", "Running")

    for job in ("first", "second"):
        await cluster.finish((await cluster.pods(job))[0])
    await cluster.until_orders(node, {})
    await cluster.until_condition("long", "Running", reason="Resumed")
    status = (await cluster.job("long"))["status"]
    assert (status["attempt"], status["preemptions"]) == (1, 1)
    assert [pod["metadata"]["uid"] for pod in await cluster.pods("long")] == [uid], "it never ended"
