"""A node's folders for each test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.device_plugin.kubelet_side import KubeletSide
from tests.integration.device_plugin.plugin_process import PluginNode


@pytest.fixture
def node() -> Iterator[PluginNode]:
    """Folders under a short path: a socket's path has at most 107 characters."""
    root = Path(tempfile.mkdtemp(prefix="lw-"))
    plugin_node = PluginNode(root)
    try:
        yield plugin_node
    finally:
        plugin_node.clean_up()
        print(plugin_node.log)  # shown with a failed test
        shutil.rmtree(root)


@pytest.fixture
def kubelet(node: PluginNode) -> Iterator[KubeletSide]:
    """A kubelet's side that waits for the plugin."""
    with KubeletSide(node.device_plugins, node.pod_resources_socket) as side:
        yield side
