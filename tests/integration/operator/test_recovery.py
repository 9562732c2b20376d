"""An operator that is killed at any moment comes back to the same state."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from laneway.api import names, quantity

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.operator.conftest import SYSTEM_NAMESPACE, played_cluster
from tests.integration.operator.killing_proxy import write_proxy
from tests.integration.operator.operator_process import FAST, OperatorProcess
from tests.integration.operator.played_cluster import PlayedCluster
from tests.integration.operator.waiting import until

PATIENT = copy.deepcopy(FAST)
PATIENT["patience"]["gangTimeoutSeconds"] = 300  # a gang must not time out while nobody leads
FAILOVER_SECONDS = 20.0


@asynccontextmanager
async def kubelet_at_work(cluster: PlayedCluster, job: str) -> AsyncIterator[set[str]]:
    """Run every pod of a job, let go of those that are deleted, and end those of the attempts in the set that is given."""
    ending: set[str] = set()

    async def work() -> None:
        while True:
            for pod in await cluster.pods(job):
                attempt = pod["metadata"]["labels"][names.ATTEMPT_LABEL]
                if "deletionTimestamp" in pod["metadata"]:
                    await cluster.let_go(job)
                elif "nodeName" not in pod["spec"]:
                    await cluster.run(pod)
                elif attempt in ending and pod["status"]["phase"] == "Running":
                    await cluster.finish(pod)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(work())
    try:
        yield ending
    finally:
        task.cancel()


async def scenario(cluster: PlayedCluster) -> dict[str, Any]:
    """A gang runs, is suspended, goes on, succeeds. Returns what must not depend on who was killed in between."""
    await cluster.add_node("n1", gpus=2)
    await cluster.submit("gang", workers=2)
    async with kubelet_at_work(cluster, "gang") as ending:
        await cluster.until_condition("gang", "Running", seconds=6 * FAILOVER_SECONDS)
        await cluster.change("gang", {"suspend": True})
        await cluster.until_waiting("gang", "Suspended", seconds=6 * FAILOVER_SECONDS)

        async def nobody() -> bool:
            return not await cluster.pods("gang")

        await until("all workers have left", nobody, 6 * FAILOVER_SECONDS)
        await cluster.change("gang", {"suspend": False})
        await cluster.until_condition("gang", "Running", seconds=6 * FAILOVER_SECONDS)
        ending.add("2")
        await cluster.until_condition("gang", "Succeeded", seconds=6 * FAILOVER_SECONDS)
    status = (await cluster.job("gang"))["status"]
    assert quantity.parse(status["attainedService"]) > 0
    return {
        "conditions": sorted((each["type"], each["status"], each["reason"]) for each in status["conditions"]),
        "counts": [status[name] for name in ("attempt", "preemptions", "restarts")],
        "placement": [
            (each["worker"], each["sharePercent"], len(each["gpus"])) for each in status["placement"]
        ],
        "pods": [
            (pod["metadata"]["name"], pod["metadata"]["labels"][names.ATTEMPT_LABEL])
            for pod in await cluster.pods("gang")
        ],
    }


async def test_an_operator_that_is_killed_after_every_write_ends_where_an_undisturbed_one_does(
    control_plane: LoopbackControlPlane, operator_kubeconfig: Path, tmp_path: Path
) -> None:
    async with played_cluster(control_plane) as cluster:
        with OperatorProcess(tmp_path / "a", operator_kubeconfig, SYSTEM_NAMESPACE, PATIENT):
            undisturbed = await scenario(cluster)

    kills: list[str] = []
    async with (
        write_proxy(operator_kubeconfig, tmp_path) as (proxy, kubeconfig),
        played_cluster(control_plane) as cluster,
    ):
        with OperatorProcess(tmp_path / "b", kubeconfig, SYSTEM_NAMESPACE, PATIENT) as operator:

            def kill(write: str) -> None:
                """Each life of the operator ends with its first write of consequence, before it has heard the answer."""
                if f"/namespaces/{cluster.namespace}/" in write and "/events" not in write:
                    kills.append(write)
                    operator.kill()
                    operator.start()

            proxy.after_write = kill
            disturbed = await scenario(cluster)
            print(operator.log)
    assert disturbed == undisturbed, f"killed after {kills}"
    assert len(kills) >= 10, f"the operator was killed only after {kills}"
