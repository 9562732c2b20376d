"""An operator that is killed at any moment comes back to the same state."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from laneway.api import names, quantity
from laneway.operator.apiserver import ApiError
from laneway.operator.resources import LEASES

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.operator.conftest import SYSTEM_NAMESPACE, played_cluster
from tests.integration.operator.killing_proxy import write_proxy
from tests.integration.operator.operator_process import FAST, OperatorProcess
from tests.integration.operator.played_cluster import PlayedCluster
from tests.integration.operator.waiting import until

PATIENT = copy.deepcopy(FAST)
PATIENT["patience"]["gangTimeoutSeconds"] = 300  # a gang must not time out while nobody leads
PATIENCE_SECONDS = 120.0


@asynccontextmanager
async def kubelet_at_work(cluster: PlayedCluster, job: str) -> AsyncIterator[None]:
    """Run every pod of a job, and let go of those that are deleted."""

    async def work() -> None:
        while True:
            for pod in await cluster.pods(job):
                if "deletionTimestamp" in pod["metadata"]:
                    await cluster.let_go(job)
                elif "nodeName" not in pod["spec"]:
                    await cluster.run(pod)
            await asyncio.sleep(0.05)

    task = asyncio.create_task(work())
    try:
        yield
    finally:
        task.cancel()


async def scenario(cluster: PlayedCluster) -> dict[str, Any]:
    """A gang starts, runs, and is suspended. Returns what must not depend on who was killed in between."""
    await cluster.add_node("n1", gpus=2)
    await cluster.submit("gang", workers=2)
    async with kubelet_at_work(cluster, "gang"):
        await cluster.until_condition("gang", "Running", seconds=PATIENCE_SECONDS)
        await cluster.change("gang", {"suspend": True})
        await cluster.until_waiting("gang", "Suspended", seconds=PATIENCE_SECONDS)

        async def nobody() -> bool:
            return not await cluster.pods("gang")

        await until("all workers have left", nobody, PATIENCE_SECONDS)
        await cluster.until_waiting("gang", "Suspended", seconds=PATIENCE_SECONDS)
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
            waits: list[asyncio.Task[None]] = []

            async def forget_lease() -> None:
                with suppress(ApiError):
                    await cluster.api.request("DELETE", LEASES.path(SYSTEM_NAMESPACE, "laneway-operator"))

            def kill(write: str) -> None:
                """Each life of the operator ends with its first write of consequence, before it has heard the answer."""
                if f"/namespaces/{cluster.namespace}/" in write and "/events" not in write:
                    kills.append(write)
                    operator.kill()
                    waits.append(
                        asyncio.create_task(forget_lease())
                    )  # test_replicas waits for leases to run out
                    operator.start()

            proxy.after_write = kill
            try:
                disturbed = await scenario(cluster)
            finally:
                print(*kills, operator.log, sep="\n")  # shown with a failed test
    assert disturbed == undisturbed, f"killed after {kills}"
    assert len(kills) >= 8, f"the operator was killed only after {kills}"
