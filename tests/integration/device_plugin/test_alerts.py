"""A real Prometheus beside the plugin: its alert fires where no kubelet answers. tests/integration/operator has the one of a plugin that is
gone, of which the kubelet tells the operator."""

from __future__ import annotations

import re
from pathlib import Path

from tests.integration.device_plugin.plugin_process import PluginNode, wait_until
from tests.support.device_plugin.builders import gpu, inventory
from tests.support.prometheus_process import prometheus


def test_a_plugin_without_a_kubelet(node: PluginNode, tmp_path: Path) -> None:
    node.write_inventory(inventory(gpu(0)))
    node.start()
    wait_until(lambda: re.search(r"port=(\d+)", node.log) is not None, "the plugin serves")
    port = re.findall(r"port=(\d+)", node.log)[0]
    with prometheus(tmp_path, {"plugin": f"127.0.0.1:{port}/metrics"}, at_once=True) as server:
        wait_until(lambda: "LanewayDevicePluginNotRegistered" in server.firing(), "no kubelet is told")
        node.kill()
        wait_until(lambda: "LanewayDevicePluginNotRegistered" not in server.firing(), "it is gone")
