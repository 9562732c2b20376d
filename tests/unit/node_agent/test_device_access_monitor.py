"""The device strategy follows the node's files and its Node."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from laneway.api.inventory import Inventory
from laneway.api.node_config import NodeConfig
from laneway.api.other_plugins import other_gpus
from laneway.node_agent.devices.monitor import DeviceAccessMonitor, NodeUnreadError
from laneway.node_agent.devices.node_facts import NodeFacts, node_facts
from laneway.node_agent.gpus.protocol import GPUInfo
from laneway.node_agent.host_folders import HostFolders

UUID = "GPU-11111111-0000-0000-0000-000000000000"
GPUS = (GPUInfo(UUID, 0, "NVIDIA", 1 << 30, device_paths=("/dev/nvidia0",)),)
NVIDIA_SPEC = f"""
cdiVersion: 0.6.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits: {{deviceNodes: [{{path: /dev/nvidia0}}]}}
- name: {UUID}
  containerEdits: {{deviceNodes: [{{path: /dev/nvidia0}}]}}
"""


class Server:
    """The API server's answers."""

    def __init__(self) -> None:
        self.facts: NodeFacts | None = NodeFacts("containerd://2.1.4")
        self.reads = 0

    def read_node(self) -> NodeFacts:
        self.reads += 1
        if self.facts is None:
            raise NodeUnreadError("node n1 could not be read: no route to host")
        return self.facts


@pytest.fixture
def folders(tmp_path: Path) -> HostFolders:
    for folder in ("etc/cdi", "dev", "run/laneway", "etc/nvidia-container-runtime"):
        (tmp_path / folder).mkdir(parents=True)
    for node in ("nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / node).touch()
    return HostFolders(tmp_path)


def test_a_spec_that_appears_later_makes_the_strategy_stronger(folders: HostFolders) -> None:
    monitor = DeviceAccessMonitor(GPUS, NodeConfig(), folders, Server().read_node)
    assert monitor.access.strategy == "device-specs"
    assert not monitor.check(node=False)

    folders.toolkit_config.write_text("accept-nvidia-visible-devices-as-volume-mounts = true\n")
    assert monitor.check(node=False)
    assert monitor.access.strategy == "volume-mounts"

    (folders.cdi[0] / "nvidia.yaml").write_text(NVIDIA_SPEC)
    assert monitor.check(node=False)
    assert (monitor.access.strategy, monitor.access.cdi_kind) == ("cdi", "nvidia.com/gpu")
    assert "follows a pod's own NVIDIA_VISIBLE_DEVICES" in monitor.access.reason

    folders.toolkit_config.write_text("accept-nvidia-visible-devices-envvar-when-unprivileged = false\n")
    assert monitor.check(node=False)
    assert "follows" not in monitor.access.reason
    assert not monitor.check(node=False)


@pytest.mark.parametrize("broken", ["kind: [", "[]", "kind: nvidia.com/gpu\ndevices: 3\n", "devices: [3]"])
def test_a_broken_file_is_ignored(folders: HostFolders, broken: str) -> None:
    (folders.cdi[0] / "other.yaml").write_text(broken)
    folders.toolkit_config.write_text("accept = [")

    assert (
        DeviceAccessMonitor(GPUS, NodeConfig(), folders, Server().read_node).access.strategy == "device-specs"
    )


def test_the_agent_writes_a_spec_where_it_names_the_gpus_itself(folders: HostFolders) -> None:
    config = NodeConfig(driver_root="/home/kubernetes/bin/nvidia")
    monitor = DeviceAccessMonitor(GPUS, config, folders, Server().read_node)

    assert (monitor.access.strategy, monitor.access.cdi_kind) == ("cdi", "laneway.dev/gpu")
    spec = json.loads(folders.own_cdi_spec.read_text())
    assert spec["kind"] == "laneway.dev/gpu"
    (device,) = spec["devices"]
    assert device["name"] == UUID
    assert [node["path"] for node in device["containerEdits"]["deviceNodes"]] == ["/dev/nvidia0"]
    assert [node["path"] for node in spec["containerEdits"]["deviceNodes"]] == [
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
    ]
    assert not monitor.check(node=False), "its own spec is no news"


def test_a_restart_does_not_wait_for_the_api_server(folders: HostFolders) -> None:
    (folders.cdi[0] / "nvidia.yaml").write_text(NVIDIA_SPEC)
    server = Server()
    first = DeviceAccessMonitor(GPUS, NodeConfig(), folders, server.read_node)
    folders.inventory.write_text(Inventory(node="n1", gpus=(), devices=first.access).model_dump_json())
    server.facts, server.reads = None, 0

    second = DeviceAccessMonitor(GPUS, NodeConfig(), folders, server.read_node)

    assert server.reads == 0
    assert second.access == first.access
    assert not second.check(node=True)


def test_gpus_of_another_device_plugin_are_noticed(
    folders: HostFolders, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()
    monitor = DeviceAccessMonitor(GPUS, NodeConfig(), folders, server.read_node)
    assert monitor.other_offers == ()

    server.facts = NodeFacts("containerd://2.1.4", ("nvidia.com/gpu: 8",))
    assert monitor.check(node=True)
    assert monitor.other_offers == ("nvidia.com/gpu: 8",)
    assert "also offered by another device plugin offers='nvidia.com/gpu: 8'" in caplog.text


def test_pods_keep_gpus_of_a_plugin_that_is_gone() -> None:
    assert other_gpus({"cpu": "1500m", "pods": "4", "nvidia.com/gpu": "2"}) == ("nvidia.com/gpu: 2",)
    assert other_gpus({"cpu": "1500m", "laneway.dev/gpu-percent": "50"}) == ()


def test_what_a_node_says() -> None:
    allocatable = {
        "cpu": "8",
        "nvidia.com/gpu": "0",
        "nvidia.com/mig-1g.10gb": "7",
        "nvidia.com/hostdev": "2",
    }
    node = {"status": {"allocatable": allocatable, "nodeInfo": {"containerRuntimeVersion": "cri-o://1.33.0"}}}

    assert node_facts(node) == NodeFacts("cri-o://1.33.0", ("nvidia.com/mig-1g.10gb: 7",))
    assert node_facts({}) == NodeFacts()
