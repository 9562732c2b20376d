"""A real agent that is killed: its Lease runs out, jobs on its node run on, none starts there until it is back."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api.node_lease import lease_name
from laneway.operator.state.resources import GPU_NODES, LEASES
from laneway.operator.watch.apiserver import ApiError, Raw

from hack.cluster.control_plane import LoopbackControlPlane
from tests.support.node_agent.node import Node
from tests.support.operator.fixtures import SYSTEM_NAMESPACE
from tests.support.operator.operator_process import FAST, OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until
from tests.support.prometheus_process import prometheus

OPERATOR_CONFIG: dict[str, Any] = copy.deepcopy(FAST)
OPERATOR_CONFIG["timeouts"]["silentNodeSeconds"] = 20


@pytest.fixture
async def node(
    operator: OperatorProcess, cluster: PlayedCluster, control_plane: LoopbackControlPlane, tmp_path: Path
) -> AsyncIterator[Node]:
    """A node with two GPUs and a real agent."""
    name = await cluster.add_node_without_agent("n1")
    node = Node(tmp_path, name)
    node.profile["gpus"][0]["model"] = cluster.model
    node.environment = {"KUBECONFIG": str(control_plane.kubeconfig), "POD_NAMESPACE": SYSTEM_NAMESPACE}
    node.start("--port", "0")
    try:
        yield node
    finally:
        node.end()


async def test_no_job_starts_on_a_node_while_its_agent_is_silent(
    operator: OperatorProcess, cluster: PlayedCluster, node: Node
) -> None:
    await cluster.submit("first")
    await cluster.run_all("first", 1)
    await cluster.until_condition("first", "Running")

    async def renewed() -> Raw | None:
        # The agent writes its GPUNode first.
        try:
            return await cluster.api.request("GET", LEASES.path(SYSTEM_NAMESPACE, lease_name(node.name)))
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    lease = await until("the Lease is there", renewed)
    assert lease["spec"]["holderIdentity"] == node.name
    assert lease["metadata"]["ownerReferences"][0]["kind"] == "Node"

    missed, heard = (_times_said(operator, what, node.name) for what in ("silent", "heard_again"))
    node.kill()
    await until("the operator misses it", lambda: _says(operator, "silent", node.name, missed), 120)
    await cluster.submit("second")
    waiting = await cluster.until_waiting("second", "NodesUnavailable")
    assert "its node agent has not renewed its Lease for a while" in json.dumps(waiting)
    assert (await cluster.condition("first", "Running"))["status"] == "True"

    node.start("--port", "0")
    await until("the operator hears it", lambda: _says(operator, "heard_again", node.name, heard))
    await cluster.run_all("second", 1)
    await cluster.until_condition("second", "Running")
    assert (await cluster.job("first"))["status"]["attempt"] == 1


async def test_an_alert_names_a_node_while_its_agent_is_silent(
    operator: OperatorProcess, cluster: PlayedCluster, node: Node, tmp_path: Path
) -> None:
    with prometheus(tmp_path, {"operator": await operator.metrics_page()}, at_once=True) as server:

        async def fires() -> bool:
            return server.firing().get("LanewayNodeAgentDown", {}).get("node") == node.name

        async def seen() -> bool:
            return bool(server.samples(f'laneway_node_agent_silent{{node="{node.name}"}} == 0'))

        await until("the agent is heard of", seen)
        assert not await fires()
        node.kill()
        await until("its alert fires", fires, 120)
        node.start("--port", "0")
        await until("its alert ends", seen, 120)


async def test_an_idle_agent_renews_its_lease_and_does_not_write_its_gpu_node(
    cluster: PlayedCluster, node: Node
) -> None:
    lease = LEASES.path(SYSTEM_NAMESPACE, lease_name(node.name))

    async def version(path: str, other_than: str | None = None) -> str | None:
        try:
            found = (await cluster.api.request("GET", path))["metadata"]["resourceVersion"]
        except ApiError as error:
            if error.status != 404:
                raise
            return None
        return None if found == other_than else str(found)

    first = await until("the Lease is there", lambda: version(lease))
    second = await until("the Lease is renewed", lambda: version(lease, first))
    written = await version(GPU_NODES.path(name=node.name))
    await until("the Lease is renewed again", lambda: version(lease, second))
    assert await version(GPU_NODES.path(name=node.name)) == written


async def _says(operator: OperatorProcess, what: str, node: str, before: int) -> bool:
    return _times_said(operator, what, node) > before


def _times_said(operator: OperatorProcess, what: str, node: str) -> int:
    lines = [line for line in operator.log.splitlines() if "\"nodes' agents fell silent" in line]
    return sum(node in json.loads(line)[what] for line in lines)
