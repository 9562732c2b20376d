"""The plugin process against the kubelet's side of the protocol; no API server."""

from __future__ import annotations

import os
import shutil

import grpc
import pytest
from laneway.api.device_ids import shares_of
from laneway.api.inventory import Inventory

from tests.integration.device_plugin.kubelet_side import KubeletSide
from tests.integration.device_plugin.plugin_process import PluginNode, wait_until
from tests.support.device_plugin.builders import NODE, gpu, ids, inventory


def test_it_registers_once_the_gpus_are_known(node: PluginNode, kubelet: KubeletSide) -> None:
    node.start()
    wait_until(lambda: "waiting for" in node.log, "the plugin says what it waits for")
    assert kubelet.registrations == []

    node.write_inventory(inventory(gpu(0, numa_node=1), gpu(1, offer=200)))

    kubelet.wait_for_devices(300)
    registration = kubelet.registrations[-1]  # one that is not answered in time is repeated
    assert registration.version == "v1beta1"
    assert registration.resource_name == "laneway.dev/gpu-percent"
    assert registration.options.pre_start_required
    assert registration.options.get_preferred_allocation_available
    assert kubelet.options() == registration.options
    assert kubelet.numa["GPU-0::7"] == []


def test_on_a_node_without_gpus_it_is_ready_and_offers_nothing(
    node: PluginNode, kubelet: KubeletSide
) -> None:
    node.write_inventory(Inventory(node=NODE, gpus=(), no_gpus_reason="the driver lists no GPU"))
    node.start()

    wait_until(lambda: "port=" in node.log and node.page("/readyz")[0] == 200, "the plugin is ready")
    assert "no GPUs: the driver lists no GPU" in node.page("/readyz")[1]
    assert kubelet.registrations == []
    assert "laneway_device_plugin_registered{" not in node.page("/metrics")[1], "no alert"

    node.write_inventory(inventory(gpu(0)))
    kubelet.wait_for_devices(100)
    assert "laneway_device_plugin_registered{" in node.page("/metrics")[1]


def test_health_changes_both_ways_and_an_invalid_inventory_changes_nothing(
    node: PluginNode, kubelet: KubeletSide
) -> None:
    node.write_inventory(inventory(gpu(0), gpu(1)))
    node.start()
    kubelet.wait_for_devices(200)

    node.write_inventory(inventory(gpu(0), gpu(1, healthy=False)))
    kubelet.wait_for_devices(100, unhealthy=100)

    node.write_inventory('{"version": 1, "node": "n1", "gpus": [{}]}')
    wait_until(
        lambda: "keeping the last valid one" in node.page("/healthz")[1], "it says that it keeps the old one"
    )
    assert "gpus.0.uuid: Field required" in node.page("/healthz")[1]
    assert (len(kubelet.healthy), len(kubelet.unhealthy)) == (100, 100)

    node.write_inventory(inventory(gpu(0), gpu(1)))
    kubelet.wait_for_devices(200)


def test_a_container_from_admission_to_end(node: PluginNode, kubelet: KubeletSide) -> None:
    node.write_inventory(inventory(gpu(0), gpu(1)))
    node.start()
    kubelet.wait_for_devices(200)

    taken = kubelet.admit("plain", 30)
    assert len(shares_of(taken)) == 1
    assert kubelet.allocated.mounts[0].host_path == str(node.folder(taken))
    assert kubelet.found_when_allocated == [], "its record follows when the kubelet has booked the ids"

    node.open_socket(taken)
    kubelet.start(taken)
    record = node.record(taken)
    assert record is not None
    assert (record["namespace"], record["pod"], record["container"]) == ("default", "plain", "trainer")
    assert sorted(record["device_ids"]) == sorted(taken)
    wait_until((node.folder(taken) / "agent.sock").is_socket, "the agent's socket is there")
    (uuid,) = shares_of(taken)
    quota = ((16 << 30) - (300 << 20)) * 30 // 100
    assert (node.folder(taken) / "quotas").read_text() == f"{uuid} {quota}\n"

    before = (node.folder(taken) / "container.json").stat().st_mtime_ns
    kubelet.start(taken)
    assert (node.folder(taken) / "container.json").stat().st_mtime_ns == before

    kubelet.end("plain")
    wait_until(lambda: not node.folder(taken).exists(), "the folder of the ended container is gone")
    status, metrics = node.page("/metrics")
    assert status == 200
    assert 'laneway_device_allocations_total{node="n1",result="granted"} 1.0' in metrics


def test_where_shares_are_withheld_containers_keep_theirs(node: PluginNode, kubelet: KubeletSide) -> None:
    known = inventory(gpu(0), gpu(1))
    node.write_inventory(known)
    node.start()
    kubelet.wait_for_devices(200)
    taken = kubelet.admit("plain", 30)
    node.open_socket(taken)
    kubelet.start(taken)

    node.write_inventory(known.model_copy(update={"withheld_reason": "another device plugin hands out GPUs"}))
    kubelet.wait_for_devices(30, unhealthy=170)
    assert set(kubelet.healthy) == set(taken)

    kubelet.end("plain")
    kubelet.wait_for_devices(0, unhealthy=200)
    node.write_inventory(known)
    kubelet.wait_for_devices(200)


def test_a_container_starts_without_the_agent(node: PluginNode, kubelet: KubeletSide) -> None:
    node.write_inventory(inventory(gpu(0)))
    node.start()
    kubelet.wait_for_devices(100)
    taken = kubelet.admit("plain", 30)

    kubelet.start(taken)

    assert node.record(taken) is not None
    assert "starts without the agent" in node.log


def test_ids_that_are_split_over_gpus_or_on_an_unhealthy_gpu_are_refused(
    node: PluginNode, kubelet: KubeletSide
) -> None:
    node.write_inventory(inventory(gpu(0), gpu(1), gpu(2, healthy=False)))
    node.start()
    kubelet.wait_for_devices(200, unhealthy=100)

    for asked, says in (
        ((*ids(0, range(5)), *ids(1, range(5))), "10 percent would be split over GPUs"),
        (ids(2, range(5)), "GPU GPU-2 is not healthy: XID 79"),
        (("rubbish",), "is not a Laneway device id"),
    ):
        with pytest.raises(grpc.RpcError) as raised:
            kubelet.allocate(asked)
        assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert says in raised.value.details()
    kubelet.admit("most", 70)
    kubelet.admit("rest", 60)
    with pytest.raises(grpc.RpcError) as raised:
        kubelet.admit("never", 50)
    assert "50 percent in one piece free (free percent: GPU-0 30, GPU-1 40" in raised.value.details()


def test_ids_of_a_living_container_are_neither_offered_nor_allocated_again(
    node: PluginNode, kubelet: KubeletSide
) -> None:
    """The kubelet may offer an id that is held when listing and allocating cross."""
    node.write_inventory(inventory(gpu(0)))
    node.start()
    kubelet.wait_for_devices(100)
    taken = kubelet.admit("first", 60)

    second = kubelet.admit("second", 40, offered=sorted(kubelet.healthy))
    assert not set(second) & set(taken)

    with pytest.raises(grpc.RpcError) as raised:
        kubelet.admit_blindly("third", taken[:10])
    assert "held by another container" in raised.value.details()


def test_a_start_without_a_holder_is_refused(node: PluginNode, kubelet: KubeletSide) -> None:
    node.write_inventory(inventory(gpu(0)))
    node.start()
    kubelet.wait_for_devices(100)

    with pytest.raises(grpc.RpcError) as raised:
        kubelet.start(ids(0, range(5)))

    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "the kubelet lists no pod that holds GPU-0::0 and 4 more" in raised.value.details()


def test_it_registers_with_a_restarted_kubelet(node: PluginNode) -> None:
    node.write_inventory(inventory(gpu(0)))
    node.start()
    with KubeletSide(node.device_plugins, node.pod_resources_socket) as first:
        first.wait_for_devices(100)
        taken = first.admit("plain", 30)
        node.open_socket(taken)
        first.start(taken)
        pods = first.pods
    inode = node.folder(taken).stat().st_ino

    with KubeletSide(node.device_plugins, node.pod_resources_socket, pods) as second:
        second.wait_for_devices(100)
        assert node.folder(taken).stat().st_ino == inode
        other = second.admit("next", 70)
        assert not set(other) & set(taken)
        wait_until(lambda: node.page("/readyz")[0] == 200, "it is registered")


def test_it_registers_again_when_the_kubelet_drops_it(node: PluginNode, kubelet: KubeletSide) -> None:
    node.write_inventory(inventory(gpu(0)))
    node.start()
    kubelet.wait_for_devices(100)

    before = len(kubelet.registrations)
    kubelet.drop_stream()

    kubelet.wait_for_registrations(before + 1)
    kubelet.wait_for_devices(100)


def test_it_serves_again_when_its_socket_is_wiped(node: PluginNode, kubelet: KubeletSide) -> None:
    node.write_inventory(inventory(gpu(0)))
    node.start()
    kubelet.wait_for_devices(100)
    before = len(kubelet.registrations)

    os.unlink(node.device_plugins / "laneway.sock")

    kubelet.wait_for_registrations(before + 1)
    kubelet.wait_for_devices(100)
    assert kubelet.admit("plain", 30)


def test_all_is_rebuilt_after_a_kill(node: PluginNode, kubelet: KubeletSide) -> None:
    """From the kubelet's records alone, records are rewritten, abandoned folders go, and no id is given
    twice."""
    node.write_inventory(inventory(gpu(0), gpu(1)))
    node.start()
    kubelet.wait_for_devices(200)
    kept, wiped, ended = (kubelet.admit(name, 40) for name in ("kept", "wiped", "ended"))
    for taken in (kept, wiped, ended):
        node.open_socket(taken)
        kubelet.start(taken)

    node.kill()
    shutil.rmtree(node.folder(wiped))
    (node.folder(kept) / "container.json").write_text('{"version"')
    kubelet.end("ended")
    with kubelet.changed:
        kubelet.changed.wait_for(lambda: not kubelet.healthy, 60)
    node.start()

    kubelet.wait_for_devices(200)
    wait_until(
        lambda: not node.folder(ended).exists(), "the folder of the container that ended meanwhile is gone"
    )
    wait_until(lambda: (node.record(wiped) or {}).get("pod") == "wiped", "the wiped folder is there again")
    wait_until(lambda: (node.record(kept) or {}).get("pod") == "kept", "the broken record is mended")
    assert not set(kubelet.admit("next", 40)) & {*kept, *wiped}


def test_it_stops_in_order(node: PluginNode, kubelet: KubeletSide) -> None:
    node.write_inventory(inventory(gpu(0)))
    node.start()
    kubelet.wait_for_devices(100)

    assert node.stop() == 0
    assert "Traceback" not in node.log


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("deviceStrategy: magic\n", "deviceStrategy"),
        ("overcommit: 3\n", "overcommit: Extra inputs are not permitted"),
        ("a: [\n", "this is not YAML"),
    ],
)
def test_a_wrong_configuration_stops_it_with_the_place(node: PluginNode, config: str, says: str) -> None:
    node.start(config)
    assert node.process is not None

    assert node.process.wait(timeout=60) == 2
    assert says in node.log
    assert "node.yaml" in node.log
    assert "Traceback" not in node.log
