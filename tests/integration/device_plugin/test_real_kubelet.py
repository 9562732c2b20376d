"""The plugin process on a node with a real kubelet and containerd: a cluster of one node, made for these tests.

The tests build on one another, in this order, because a cluster costs more than a test.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from laneway.api.inventory import DeviceAccess

from hack.cluster.images import pause_archive
from hack.cluster.teardown import bring_down
from tests.integration.device_plugin.plugin_process import wait_until
from tests.integration.device_plugin.real_node import RealNode
from tests.support.derived_image import derive
from tests.support.device_plugin.builders import gpu

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a node needs root: namespaces, mounts, cgroups")

CLUSTER = "plugin-test"
IMAGE_WITH_A_PATH = "localhost/laneway/with-a-path:1"
WORKERS = {"a-0": (0, 50), "a-1": (0, 50), "b-0": (1, 50), "b-1": (1, 50), "c-0": (2, 30), "c-1": (2, 30)}
PLAIN = {"p-0": 40, "p-1": 20, "p-2": 20, "p-3": 20, "p-4": 20, "p-5": 20}
"""These fill the rest (40 and 100 percent) in any order of admission."""


@pytest.fixture(scope="module")
def node() -> Iterator[RealNode]:
    bring_down(CLUSTER)
    try:
        yield RealNode(CLUSTER)
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


def test_fractions_are_admitted_where_the_operator_placed_them_under_single_numa_node(node: RealNode) -> None:
    """The kubelet would refuse 60 % on another NUMA node, fill 60 % with hundredths of two GPUs, and offer 50 % only
    hundredths of GPUs that do not hold them."""
    node.delete_all()
    node.set_topology_policy("single-numa-node")
    node.offer(*(gpu(index, numa_node=index // 2) for index in range(4)))
    node.wait_until_registered()
    node.create(first_0=(70, "GPU-0"), second_0=(70, "GPU-1"))
    node.wait_until_running(2)

    node.create(sixty_0=(60, "GPU-2"), fifty_0=(50, "GPU-3"))
    node.create(rest_0=(40, "GPU-2"))

    node.wait_until_running(5)
    shares = {name: record["shares"] for name, record in node.records().items()}
    assert shares["sixty-0"] == {"GPU-2": 60}
    assert shares["fifty-0"] == {"GPU-3": 50}
    assert shares["rest-0"] == {"GPU-2": 40}
    node.set_topology_policy("none")


@pytest.mark.parametrize(
    ("access", "handed_over"),
    [
        (
            DeviceAccess(strategy="cdi", cdi_kind="nvidia.com/gpu"),
            ["INJECTED_BY_CDI=GPU-1", "NVIDIA_VISIBLE_DEVICES=void"],
        ),
        (DeviceAccess(strategy="env"), ["NVIDIA_VISIBLE_DEVICES=GPU-1"]),
    ],
    ids=["cdi", "env"],
)
def test_a_real_gpu_is_handed_over_by_the_nodes_strategy(
    node: RealNode, tmp_path: Path, access: DeviceAccess, handed_over: list[str]
) -> None:
    """containerd passes the GPU on: it resolves CDI names with a specification like that of NVIDIA's toolkit.

    With either strategy, the image's PYTHONPATH, as containerd reports it, is in the container's folder.
    """
    derive(pause_archive(), tmp_path / "image.tar", IMAGE_WITH_A_PATH, {"PYTHONPATH": "/opt/own"}, {})
    node.cluster.load_image(tmp_path / "image.tar")
    node.delete_all()
    node.plugin.kill()
    node.write_cdi_specification(4)
    node.offer(*(gpu(index, numa_node=0, simulated=False) for index in range(4)), devices=access)
    node.start_plugin()

    node.create(image=IMAGE_WITH_A_PATH, whole_0=(100, "GPU-1"))

    (identifier,) = node.wait_until_running(1).values()
    environment = node.environment_of(identifier)
    found = [one for one in environment if one.startswith(("INJECTED_BY_CDI", "NVIDIA_VISIBLE_DEVICES"))]
    assert sorted(found) == handed_over
    assert "LANEWAY_GPUS=GPU-1" in environment
    assert "PYTHONPATH=/opt/laneway:/run/laneway/image-pythonpath" in environment
    assert node.image_paths() == ["/opt/own"]
