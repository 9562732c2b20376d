"""An API server that is killed and comes back: nothing that runs is lost, and what came meanwhile is seen."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.operator.conftest import SYSTEM_NAMESPACE, played_cluster
from tests.integration.operator.operator_process import OperatorProcess
from tests.integration.operator.waiting import until
from tests.integration.planes import plane_with_crds


@pytest.fixture
def plane() -> Iterator[LoopbackControlPlane]:
    """A control plane of the test's own: others must not lose theirs."""
    with plane_with_crds() as started:
        kubectl = [str(started.kubectl), "--kubeconfig", str(started.kubeconfig)]
        subprocess.run([*kubectl, "create", "namespace", SYSTEM_NAMESPACE], check=True)
        yield started


async def test_an_outage_of_the_api_server(plane: LoopbackControlPlane, tmp_path: Path) -> None:
    async with played_cluster(plane) as cluster:
        with OperatorProcess(tmp_path, plane.kubeconfig, SYSTEM_NAMESPACE) as operator:
            await cluster.add_node("n1", gpus=2)
            await cluster.submit("before")
            await cluster.run_all("before", 1)
            await cluster.until_condition("before", "Running")
            plane.kill("kube-apiserver")

            async def noticed() -> bool:
                return "the API server does not answer as it should" in operator.log

            await until("the operator notices", noticed)
            plane.start("kube-apiserver")
            await cluster.submit("after")
            await cluster.run_all("after", 1)
            await cluster.until_condition("after", "Running")
            assert (await cluster.condition("before", "Running"))["status"] == "True"
            assert (await cluster.job("before"))["status"]["attempt"] == 1
            assert operator.process is not None
            assert operator.process.poll() is None, "it is the process that it was"
