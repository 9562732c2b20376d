"""What a job's status, and the command line, say of why it waits."""

from __future__ import annotations

import asyncio
import os
import sys
import time

from laneway.api.rfc3339 import parse_time
from laneway.operator.watch.apiserver import Raw

from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until


async def test_a_waiting_job_says_what_holds_it_back_who_is_ahead_when_it_may_start_and_what_to_change(
    operator: OperatorProcess, cluster: PlayedCluster, control_plane: LoopbackControlPlane
) -> None:
    await cluster.add_node("n1", gpus=3)
    await cluster.submit("runs", workers=2)
    await cluster.run_all("runs", 2)
    await cluster.until_condition("runs", "Running")
    for name in ("first", "second"):
        await cluster.submit(name, workers=3)
        await cluster.until_waiting(name, "GPUsBusy")

    async def estimated() -> Raw | None:
        waiting: Raw = (await cluster.job("second"))["status"]["waiting"]
        return waiting if waiting.get("estimatedStart") and waiting.get("alternatives") else None

    waiting = await until("second was estimated", estimated)
    assert waiting["position"] == 2
    assert waiting["ahead"] == [f"{cluster.namespace}/first"]
    assert waiting["alternatives"] == ["workers: 1 instead of 3"]
    assert parse_time(waiting["estimatedStart"]) > time.time(), "first goes before it, for a while"
    assert "as long again" in waiting["estimateBasis"]

    explain = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "laneway.cli.main",
        "explain",
        "second",
        "-n",
        cluster.namespace,
        env={**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await explain.communicate()
    said = output.decode()
    assert explain.returncode == 0
    assert "workers: 1 instead of 3" in said
    assert f"ahead of it: {cluster.namespace}/first" in said
    assert "Estimated start: " in said

    await cluster.submit("smaller", workers=1)  # the change that was named does let a job start
    await cluster.run_all("smaller", 1)
    await cluster.until_condition("smaller", "Running")


async def test_a_job_is_not_placed_where_mps_would_not_hold_its_share(
    operator: OperatorProcess, cluster: PlayedCluster
) -> None:
    """The MPS daemon limits all processes on a GPU to the largest quota there."""
    await cluster.add_node("n1", enforcement="MPS")
    await cluster.submit("large", gpus={"type": "Share", "sharePercent": 60})
    (large,) = await cluster.run_all("large", 1)
    await cluster.until_condition("large", "Running")
    await cluster.submit("strict", gpus={"type": "Share", "sharePercent": 20}, minimumEnforcement="MPS")
    waiting = await cluster.until_waiting("strict", "AwaitingMPSLimit")
    assert (
        f"beside {cluster.namespace}/large (60 percent) it would not be held to its own" in waiting["message"]
    )
    assert waiting["blockers"] == [f"{cluster.namespace}/large"]

    await cluster.finish(large)
    await cluster.run_all("strict", 1)
    await cluster.until_condition("strict", "Running")
    await cluster.submit("late", gpus={"type": "Share", "sharePercent": 60})
    waiting = await cluster.until_waiting("late", "AwaitingMPSLimit")
    assert f"{cluster.namespace}/strict (20 percent) would not be held as demanded" in waiting["message"]
