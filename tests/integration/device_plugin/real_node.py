"""A cluster of one node with a real kubelet and containerd, and the plugin process on it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import yaml
from laneway.api.inventory import Inventory
from laneway.api.names import GPU_PERCENT, GPUS_ANNOTATION

from hack.cluster import embedded
from hack.cluster.commands import run
from hack.cluster.images import PAUSE_IMAGE
from hack.cluster.probes import answers_ok
from hack.cluster.processes import Component
from tests.integration.device_plugin.plugin_process import wait_until
from tests.integration.device_plugin.rights import RIGHTS
from tests.support.control_planes import REPOSITORY
from tests.support.device_plugin.builders import gpu, labels_of_worker, owner_of_worker, raw_job


class RealNode:
    """The cluster's node and the plugin that runs on it."""

    def __init__(self, name: str) -> None:
        embedded.bring_up(name, 1)
        self.cluster = embedded.open_cluster(name)
        self.kubectl = self.cluster.kubectl
        self.node = self.cluster.nodes[0]
        self.plan = self.node.plan
        self.folder = self.plan.folder / "plugin"
        self.folder.mkdir()
        self.inventory = self.folder / "inventory.json"
        self.plugin = Component(
            "device-plugin",
            f"{self.plan.cgroup}/device-plugin",
            Path(os.path.realpath(sys.executable)),
            self.plan.cluster.log("device-plugin"),
        )
        self.kubectl.run("apply", "--server-side", "-f", "-", stdin=RIGHTS)
        self.kubectl.run("apply", "--server-side", "-f", str(REPOSITORY / "crds"))
        self.kubectl.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        self.offer(*(gpu(index, numa_node=0) for index in range(4)))
        (self.folder / "node.yaml").write_text("gpuSource: simulated\n")

    def offer(self, *gpus: Any, **more: Any) -> None:
        """Write the inventory as the agent does."""
        scratch = self.folder / "new"
        scratch.write_text(Inventory(node=self.plan.name, gpus=gpus, **more).model_dump_json())
        scratch.replace(self.inventory)

    def start_plugin(self) -> None:
        kubeconfig = self.cluster.files.kubeconfig("users/plugin", "test-device-plugin", "", embed=True)
        command = [
            *(sys.executable, "-m", "laneway.device_plugin.main", "--config", self.folder / "node.yaml"),
            *("--node-name", self.plan.name, "--kubeconfig", kubeconfig),
            *("--inventory", self.inventory),
        ]
        self.plugin.start(command, inside=self.node.ensure_namespaces())
        self.wait_until_registered()

    def wait_until_registered(self) -> None:
        wait_until(
            lambda: answers_ok(self.plan.address, 9465, "/readyz", None) and self.allocatable() == 400,
            f"the plugin is registered and the node shows its shares ({self.plugin.log})",
            60,
        )

    def set_topology_policy(self, policy: str) -> None:
        """Restart the kubelet with another policy of its topology manager. No pod may run."""
        file = self.node.paths.kubelet_config
        configuration = yaml.safe_load(file.read_text()) | {"topologyManagerPolicy": policy}
        file.write_text(yaml.safe_dump(configuration))
        before = self.registrations()
        self.cluster.restart_kubelet(self.plan.name)
        # Until then, both the plugin and the Node may say what was before the restart.
        wait_until(lambda: self.registrations() > before, "the plugin has registered with the new kubelet")
        self.wait_until_registered()

    def registrations(self) -> int:
        """Return how often the plugin has registered with a kubelet."""
        return self.plugin.log.read_text().count("registered with the kubelet")

    def allocatable(self) -> int:
        status = self.kubectl.get("node", self.plan.name)["status"]
        return int(status["allocatable"].get(GPU_PERCENT, 0))

    def create(self, *, image: str = PAUSE_IMAGE, visible: str = "", **pods: tuple[int, str]) -> None:
        """Create pods at once: size and chosen GPU by name (with underscores for dashes). ``visible`` is their own
        NVIDIA_VISIBLE_DEVICES."""
        environment = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible}] if visible else []
        items = [
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name.replace("_", "-"),
                    **(self.worker_metadata(name.replace("_", "-"), uuid) if uuid else {}),
                },
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "automountServiceAccountToken": False,
                    "containers": [
                        {
                            "name": "trainer",
                            "image": image,
                            "imagePullPolicy": "Never",
                            "env": environment,
                            "resources": {"limits": {GPU_PERCENT: str(size)}},
                        }
                    ],
                },
            }
            for name, (size, uuid) in pods.items()
        ]
        document = {"apiVersion": "v1", "kind": "List", "items": items}
        self.kubectl.run("create", "-f", "-", stdin=json.dumps(document))

    def worker_metadata(self, name: str, uuid: str) -> dict[str, Any]:
        """What the operator writes on the worker of this name (JOB-RANK); its job is made if it does not exist."""
        job = json.dumps(raw_job(name.rpartition("-")[0]))
        made = self.kubectl.run("apply", "-o", "json", "-f", "-", stdin=job)
        job_uid = json.loads(made)["metadata"]["uid"]
        return {
            "labels": labels_of_worker(name, job_uid),
            "annotations": {GPUS_ANNOTATION: uuid},
            "ownerReferences": [owner_of_worker(name, job_uid)],
        }

    def wait_until_running(self, count: int) -> dict[str, str]:
        """Wait until this number of pods run and none was refused; return their container ids by name."""

        def all_run() -> bool:
            pods = self.kubectl.get("pods")["items"]
            refused = [pod["status"].get("message") for pod in pods if pod["status"]["phase"] == "Failed"]
            assert not refused, refused
            return [pod["status"]["phase"] for pod in pods] == ["Running"] * count

        wait_until(all_run, f"{count} pods run", 120)
        return {
            pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["containerID"]
            for pod in self.kubectl.get("pods")["items"]
        }

    def delete_all(self) -> None:
        """Delete all pods and wait until they are gone."""
        self.kubectl.run("delete", "pods", "--all", "--wait=true")

    def write_cdi_specification(self, count: int) -> None:
        """Describe GPUs to containerd; each is handed over as a variable."""
        devices = [
            {"name": f"GPU-{index}", "containerEdits": {"env": [f"INJECTED_BY_CDI=GPU-{index}"]}}
            for index in range(count)
        ]
        text = json.dumps({"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": devices})
        self.node.run(["sh", "-c", f"mkdir -p /var/run/cdi && echo '{text}' > /var/run/cdi/gpus.json"])

    def environment_of(self, identifier: str) -> list[str]:
        """The environment that containerd gave to a container."""
        _, _, name = identifier.partition("://")
        info = json.loads(run([*self.node.ctr(), "containers", "info", name]))
        environment: list[str] = info["Spec"]["process"]["env"]
        return environment

    def image_paths(self) -> list[str]:
        """What the plugin has written about the images of containers, where it has."""
        text = self.node.run(
            ["sh", "-c", "head -n 1 /run/laneway/containers/*/image-pythonpath 2>/dev/null || true"]
        )
        return text.splitlines()

    def records(self) -> dict[str, dict[str, Any]]:
        """What the plugin has written about containers, by pod."""
        text = self.node.run(["sh", "-c", "cat /run/laneway/containers/*/container.json 2>/dev/null || true"])
        decoder, found, place = json.JSONDecoder(), {}, 0
        while place < len(text):
            record, place = decoder.raw_decode(text, place)
            found[record["pod"]] = record
        return found
