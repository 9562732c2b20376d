"""An operator for some namespaces, with rights to these alone, on a real API server."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from laneway.api import names
from laneway.operator.state.resources import SERVICES

from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.operator.fixtures import install_rights, played_cluster
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster

Clusters = tuple[PlayedCluster, PlayedCluster, PlayedCluster]


@pytest.fixture
async def clusters(control_plane: LoopbackControlPlane) -> AsyncIterator[Clusters]:
    """Two namespaces of the operator's, and a third."""
    async with AsyncExitStack() as stack:
        made = [await stack.enter_async_context(played_cluster(control_plane)) for _ in range(3)]
        yield made[0], made[1], made[2]


@pytest.fixture
def kubeconfig(clusters: Clusters, control_plane: LoopbackControlPlane, tmp_path: Path) -> Path:
    """What the chart gives the operator for the first two."""
    listed = ",".join(each.namespace for each in clusters[:2])
    return install_rights(control_plane, _system(clusters), tmp_path, f"operator.namespaces={{{listed}}}")


@pytest.fixture
def operator(clusters: Clusters, kubeconfig: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    cycle = {**FAST["cycle"], "relistSeconds": 1}
    config = {**FAST, "cycle": cycle, "namespaces": [each.namespace for each in clusters[:2]]}
    with OperatorProcess(tmp_path / "operator", kubeconfig, _system(clusters), config) as process:
        yield process
    print(process.log)


async def test_jobs_run_in_the_operators_namespaces_and_stay_untouched_elsewhere(
    clusters: Clusters, operator: OperatorProcess
) -> None:
    *own, other = clusters
    for cluster in clusters:
        await cluster.add_node("n1", gpus=2)
    await other.submit("gang", workers=2)
    for cluster in own:
        await cluster.submit("gang", workers=2)
    for cluster in own:
        pods = await cluster.run_all("gang", 2)
        await cluster.until_condition("gang", "Running")
        assert await cluster.api.request("GET", SERVICES.path(cluster.namespace, names.GANG_SERVICE))
        for pod in pods:
            await cluster.finish(pod)
        await cluster.until_condition("gang", "Complete")
        await cluster.until_event("gang", "Completed")
    assert "status" not in await other.job("gang")
    assert await other.pods("gang") == []
    assert "forbidden" not in operator.log.lower()


@pytest.mark.parametrize(
    "right", ["list pods", "watch trainingjobs.laneway.dev", "delete pods", "get services"]
)
async def test_the_operator_has_no_rights_elsewhere(
    right: str, clusters: Clusters, kubeconfig: Path, control_plane: LoopbackControlPlane
) -> None:
    def may(*where: str) -> str:
        command = [str(control_plane.kubectl), "--kubeconfig", str(kubeconfig), "auth", "can-i"]
        done = subprocess.run([*command, *right.split(), *where], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    assert [may("-n", each.namespace) for each in clusters] == ["yes", "yes", "no"]
    assert may("--all-namespaces") == "no"


def _system(clusters: Clusters) -> str:
    """Laneway's own namespace."""
    return f"system-{clusters[0].namespace}"
