"""The plugin process on a node with a real kubelet and containerd: a cluster of one node, made for these tests.

The tests build on one another, in this order, because a cluster costs more than a test.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api.inventory import Inventory
from laneway.api.names import GPU_PERCENT, GPUS_ANNOTATION

from hack.cluster import embedded
from hack.cluster.commands import run
from hack.cluster.images import PAUSE_IMAGE, pause_archive
from hack.cluster.probes import answers_ok
from hack.cluster.processes import Component
from hack.cluster.teardown import bring_down
from tests.integration.device_plugin.plugin_process import wait_until
from tests.integration.device_plugin.rights import RIGHTS
from tests.support.control_planes import REPOSITORY
from tests.support.derived_image import derive
from tests.support.device_plugin.builders import gpu, labels_of_worker, owner_of_worker, raw_job

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a node needs root: namespaces, mounts, cgroups")

CLUSTER = "plugin-test"
IMAGE_WITH_A_PATH = "localhost/laneway/with-a-path:1"
WORKERS = {"a-0": (0, 50), "a-1": (0, 50), "b-0": (1, 50), "b-1": (1, 50), "c-0": (2, 30), "c-1": (2, 30)}
PLAIN = {"p-0": 40, "p-1": 20, "p-2": 20, "p-3": 20, "p-4": 20, "p-5": 20}
"""These fill the rest (40 and 100 percent) in any order of admission."""


class RealNode:
    """The cluster's node and the plugin that runs on it."""

    def __init__(self) -> None:
        embedded.bring_up(CLUSTER, 1)
        self.cluster = embedded.open_cluster(CLUSTER)
        self.kubectl = self.cluster.kubectl
        self.node = self.cluster.nodes[0]
        self.plan = self.node.plan
        self.folder = self.plan.folder / "plugin"
        self.folder.mkdir()
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

    def offer(self, *gpus: Any) -> None:
        scratch = self.folder / "new"
        scratch.write_text(Inventory(node=self.plan.name, gpus=gpus).model_dump_json())
        scratch.replace(self.folder / "inventory.json")

    def start_plugin(self) -> None:
        kubeconfig = self.cluster.files.kubeconfig("users/plugin", "test-device-plugin", "", embed=True)
        command = [
            *(sys.executable, "-m", "laneway.device_plugin.main", "--config", self.folder / "node.yaml"),
            *("--node-name", self.plan.name, "--kubeconfig", kubeconfig),
            *("--inventory", self.folder / "inventory.json"),
        ]
        self.plugin.start(command, inside=self.node.ensure_namespaces())
        self.wait_until_registered()

    def wait_until_registered(self) -> None:
        wait_until(
            lambda: answers_ok(self.plan.address, 9465, "/readyz", None) and self.allocatable() == 400,
            f"the plugin is registered and the node shows its shares ({self.plugin.log})",
            60,
        )

    def allocatable(self) -> int:
        status = self.kubectl.get("node", self.plan.name)["status"]
        return int(status["allocatable"].get(GPU_PERCENT, 0))

    def create(self, *, image: str = PAUSE_IMAGE, **pods: tuple[int, str]) -> None:
        """Create pods at once: size and chosen GPU by name (with underscores for dashes)."""
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


@pytest.fixture(scope="module")
def node() -> Iterator[RealNode]:
    bring_down(CLUSTER)
    try:
        yield RealNode()
    finally:
        bring_down(CLUSTER)


def test_it_registers_with_a_real_kubelet(node: RealNode) -> None:
    node.start_plugin()

    assert node.allocatable() == 400


def test_twelve_pods_of_mixed_sizes_get_ids_and_names(node: RealNode) -> None:
    """Those with a choice on the GPU that was chosen, the others in the remaining capacity, and none split."""
    workers = {name.replace("-", "_"): (size, f"GPU-{index}") for name, (index, size) in WORKERS.items()}
    node.create(**workers)
    node.kubectl.run("wait", "--for=condition=PodScheduled", "pods", "--all", "--timeout=60s")
    node.create(**{name.replace("-", "_"): (size, "") for name, size in PLAIN.items()})

    node.wait_until_running(12)

    records = node.records()
    assert {name: records[name]["shares"] for name in WORKERS} == {
        name: {f"GPU-{index}": size} for name, (index, size) in WORKERS.items()
    }
    assert {name: list(records[name]["shares"].values()) for name in PLAIN} == {
        name: [size] for name, size in PLAIN.items()
    }
    uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in node.kubectl.get("pods")["items"]}
    assert {name: record["pod_uid"] for name, record in records.items()} == uids
    held = Counter(one for record in records.values() for one in record["device_ids"])
    assert len(held) == 400
    assert set(held.values()) == {1}


def test_it_registers_again_when_the_kubelet_restarts_and_pods_run_on(node: RealNode) -> None:
    before, records = node.wait_until_running(12), node.records()

    node.cluster.restart_kubelet(node.plan.name)

    node.wait_until_registered()
    assert node.wait_until_running(12) == before
    assert node.records() == records


def test_after_a_kill_no_id_is_given_twice_and_pods_run_on(node: RealNode) -> None:
    before = node.wait_until_running(12)

    node.plugin.kill()
    node.kubectl.run("delete", "pod", "a-0", "p-0", "--wait=true")
    node.node.run(["sh", "-c", "rm -r /run/laneway/containers/$(ls /run/laneway/containers | head -n 1)"])
    node.start_plugin()
    node.create(a_2=(50, "GPU-0"), p_6=(40, ""))

    after = node.wait_until_running(12)
    assert {name: after[name] for name in before if name in after} == {
        name: value for name, value in before.items() if name not in ("a-0", "p-0")
    }
    wait_until(
        lambda: set(node.records()) == set(after), "each running container has its record, no other has", 30
    )
    held = Counter(one for record in node.records().values() for one in record["device_ids"])
    assert (len(held), set(held.values())) == (400, {1})


def test_a_sick_gpu_is_taken_off_and_comes_back(node: RealNode) -> None:
    healthy = [gpu(index, numa_node=0) for index in range(4)]

    node.offer(*healthy[:3], gpu(3, numa_node=0, healthy=False))
    wait_until(lambda: node.allocatable() == 300, "the sick GPU is no longer allocatable", 60)

    node.offer(*healthy)
    wait_until(lambda: node.allocatable() == 400, "it is again", 60)
    node.wait_until_running(12)


def test_whole_gpus_are_distinct_and_connected_by_nvlink(node: RealNode) -> None:
    node.delete_all()
    pairs = {0: 2, 1: 3, 2: 0, 3: 1}
    node.offer(*(gpu(index, numa_node=0, nvlink_peers=(f"GPU-{peer}",)) for index, peer in pairs.items()))
    node.create(small_0=(10, "GPU-0"))
    node.wait_until_running(1)

    node.create(pair=(200, ""))

    node.wait_until_running(2)
    assert node.records()["pair"]["shares"] == {"GPU-1": 100, "GPU-3": 100}


@pytest.mark.parametrize(
    ("strategy", "handed_over"),
    [("cdi", "INJECTED_BY_CDI=GPU-1"), ("env", "NVIDIA_VISIBLE_DEVICES=GPU-1")],
)
def test_a_real_gpu_is_handed_over_by_the_configured_strategy(
    node: RealNode, tmp_path: Path, strategy: str, handed_over: str
) -> None:
    """containerd passes the GPU on: it resolves CDI names with a specification like that of NVIDIA's toolkit.

    With either strategy, the image's PYTHONPATH, as containerd reports it, is in the container's folder.
    """
    derive(pause_archive(), tmp_path / "image.tar", IMAGE_WITH_A_PATH, {"PYTHONPATH": "/opt/own"}, {})
    node.cluster.load_image(tmp_path / "image.tar")
    node.delete_all()
    node.plugin.kill()
    node.write_cdi_specification(4)
    (node.folder / "node.yaml").write_text(f"gpuSource: nvml\ndeviceStrategy: {strategy}\n")
    node.offer(*(gpu(index, numa_node=0, simulated=False) for index in range(4)))
    node.start_plugin()

    node.create(image=IMAGE_WITH_A_PATH, whole_0=(100, "GPU-1"))

    (identifier,) = node.wait_until_running(1).values()
    environment = node.environment_of(identifier)
    found = [one for one in environment if one.startswith(("INJECTED_BY_CDI", "NVIDIA_VISIBLE_DEVICES"))]
    assert found == [handed_over]
    assert "LANEWAY_GPUS=GPU-1" in environment
    assert "PYTHONPATH=/opt/laneway:/run/laneway/image-pythonpath" in environment
    assert node.image_paths() == ["/opt/own"]
