"""A real Prometheus beside a real operator: its alerts fire when its API server, a node's device plugin or the operator itself is gone."""

from __future__ import annotations

import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from laneway.api.names import GPU_PERCENT
from laneway.operator.state.resources import NODES

from tests.support.operator.operator_process import OperatorProcess
from tests.support.operator.played_cluster import PlayedCluster
from tests.support.operator.waiting import until
from tests.support.prometheus_process import prometheus


def kubeconfig(folder: Path, port: int) -> Path:
    """A way to an API server on a port where nobody listens."""
    path = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(content))
    return path


async def test_an_operator_without_an_api_server_and_one_that_is_killed(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        unanswered = taken.getsockname()[1]
        with OperatorProcess(tmp_path / "operator", kubeconfig(tmp_path, unanswered), "default") as operator:
            targets = {"operator": await operator.metrics_page()}
            with prometheus(tmp_path, targets, at_once=True) as server:

                async def reported() -> bool:
                    return {"LanewayNoLeader", "LanewayAPIErrors"} <= server.firing().keys()

                async def gone() -> bool:
                    return "LanewayOperatorDown" in server.firing()

                await until("no leader and failing requests are reported", reported)
                operator.kill()
                await until("its end is reported", gone)


async def test_a_node_whose_device_plugin_is_gone_and_one_that_is_removed(
    operator: OperatorProcess, cluster: PlayedCluster, tmp_path: Path
) -> None:
    async def offer(node: str, percent: int) -> None:
        offered = {"cpu": "8", "memory": "8Gi", "pods": "110", GPU_PERCENT: str(percent)}
        path = NODES.path(name=node, subresource="status")
        body = {"status": {"capacity": offered, "allocatable": offered}}
        await cluster.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")

    faulty, removed = [await cluster.add_node(name) for name in ("n1", "n2")]
    for node in (faulty, removed):
        await offer(node, 100)
    with prometheus(tmp_path, {"operator": await operator.metrics_page()}, at_once=True) as server:

        async def in_order() -> bool:
            shown = server.samples("laneway_node_shares_missing == 0")
            return {sample["metric"]["node"] for sample in shown} >= {faulty, removed}

        async def fires() -> bool:
            return server.firing().get("LanewayDevicePluginDown", {}).get("node") == faulty

        async def gone() -> bool:
            return not server.samples(f'laneway_node_shares_missing{{node="{removed}"}}')

        await until("both nodes are seen", in_order)
        await offer(faulty, 0)
        await until("the alert fires", fires)
        await cluster.remove_node(removed)
        await until("the removed node has no series", gone)
        fired = 'last_over_time(ALERTS{alertname=~"LanewayNodeAgentDown|LanewayDevicePluginDown"}[1h])'
        assert {sample["metric"]["node"] for sample in server.samples(fired)} == {faulty}
        await offer(faulty, 100)
        await until("the alert ends", lambda: _not(fires))


async def _not(look: Callable[[], Awaitable[bool]]) -> bool:
    return not await look()
