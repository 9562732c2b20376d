"""A container reaches its own GPU's device node and no other: real agent, plugin, kubelet, containerd and runc.

The GPUs are simulated and have device nodes of a number without a driver. Opening one fails with ENXIO where the
container's device cgroup allows it, and with EPERM where it does not.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from laneway.node_agent.gpus.simulated import simulated_uuid

from hack.cluster.cgroups import hierarchies
from hack.cluster.commands import run
from hack.cluster.processes import Component
from hack.cluster.teardown import bring_down
from tests.integration.device_plugin.plugin_process import wait_until
from tests.integration.device_plugin.real_node import RealNode

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a node needs root: namespaces, mounts, cgroups")

CLUSTER = "device-access"
CRDS = Path(__file__).parents[3] / "crds"
NODES = [f"/run/test-gpus/gpu{index}" for index in range(4)]
UNUSED_MAJOR = 240
"""Of the numbers for local use: no driver has it."""


class AgentNode(RealNode):
    """A node with the agent on it too."""

    def __init__(self) -> None:
        super().__init__(CLUSTER)
        self.kubectl.run("apply", "--server-side", "-f", str(CRDS))
        self.inventory = Path("/run/laneway/inventory.json")  # the node's own: /run is not the machine's
        self.agent = Component(
            "node-agent",
            f"{self.plan.cgroup}/node-agent",
            Path(os.path.realpath(sys.executable)),
            self.plan.cluster.log("node-agent"),
        )
        nodes = (f"mknod {path} c {UNUSED_MAJOR} {index}" for index, path in enumerate(NODES))
        self.node.run(["sh", "-c", f"mkdir -p /run/test-gpus && {' && '.join(nodes)}"])
        profile = {"gpus": [{"count": len(NODES), "devicePaths": NODES}]}
        (self.folder / "gpus.yaml").write_text(yaml.safe_dump(profile))

    @property
    def uuids(self) -> list[str]:
        return [simulated_uuid(self.plan.name, index) for index in range(len(NODES))]

    def restart(self, strategy: str) -> None:
        """Start agent and plugin again with another configuration."""
        self.delete_all()
        self.plugin.kill()
        self.agent.kill()
        self.node.run(["rm", "-f", str(self.inventory), "/var/run/cdi/laneway.dev-gpu.json"])
        text = f"gpuSource: simulated\nsharing: off\ndeviceStrategy: {strategy}\n"
        (self.folder / "node.yaml").write_text(text)
        kubeconfig = self.cluster.files.kubeconfig("users/agent", "test-agent", "system:masters", embed=True)
        command = [
            *("env", f"KUBECONFIG={kubeconfig}", sys.executable, "-m", "laneway.node_agent.main"),
            *("--config", self.folder / "node.yaml", "--gpus", self.folder / "gpus.yaml"),
            *("--node-name", self.plan.name),
        ]
        self.agent.start(command, inside=self.node.ensure_namespaces())
        self.start_plugin()

    def status(self) -> dict[str, str]:
        """What the GPUNode says of the strategy."""
        status = self.kubectl.get("gpunode", self.plan.name).get("status", {})
        return {name: text for name, text in status.items() if name.startswith("deviceStrategy")}

    def process_of(self, identifier: str) -> int:
        """The pid of a container's process."""
        _, _, name = identifier.partition("://")
        tasks = run([*self.node.ctr(), "tasks", "list"])
        found = re.search(rf"^{name}\s+(\d+)\s", tasks, re.MULTILINE)
        assert found is not None, tasks
        return int(found.group(1))

    def visible_nodes(self, pid: int) -> list[str]:
        """The GPUs' device nodes in a container."""
        return self.node.run(["sh", "-c", f"ls /proc/{pid}/root/run/test-gpus"]).split()

    def opening(self, pid: int, path: str) -> str:
        """What a process in a container's cgroup is told when it opens a device node of the host."""
        by_version_1 = [found for found in hierarchies() if "devices" in found.controllers]
        (hierarchy,) = by_version_1 or [found for found in hierarchies() if found.version == 2]
        lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        (cgroup,) = (
            path for _, names, path in lines if ("devices" if by_version_1 else "") in names.split(",")
        )
        join = f"echo $$ > {hierarchy.mount_point}{cgroup}/cgroup.procs"
        return self.node.run(["sh", "-c", f"{join} && {{ cat {path} 2>&1 || true; }}"]).strip()


@pytest.fixture(scope="module")
def node() -> Iterator[AgentNode]:
    bring_down(CLUSTER)
    try:
        yield AgentNode()
    finally:
        bring_down(CLUSTER)


@pytest.mark.parametrize(
    ("configured", "strategy", "reason"),
    [
        ("auto", "cdi", "strongest strategy; the agent's own CDI spec names each GPU as laneway.dev/gpu"),
        ("device-specs", "device-specs", "configured"),
    ],
)
def test_a_container_reaches_its_own_gpu_and_no_other(
    node: AgentNode, configured: str, strategy: str, reason: str
) -> None:
    node.restart(configured)
    first, second = node.uuids[0], node.uuids[2]
    wait_until(
        lambda: node.status() == {"deviceStrategy": strategy, "deviceStrategyReason": reason},
        "the GPUNode names the strategy",
    )

    node.create(visible="all", first_0=(50, first), second_0=(50, second))

    containers = node.wait_until_running(2)
    for name, own, other in (("first-0", 0, 2), ("second-0", 2, 0)):
        pid = node.process_of(containers[name])
        assert node.visible_nodes(pid) == [f"gpu{own}"]
        assert "No such device or address" in node.opening(pid, NODES[own])
        assert "Operation not permitted" in node.opening(pid, NODES[other])
