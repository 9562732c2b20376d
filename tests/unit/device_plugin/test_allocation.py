"""What a container gets with its ids, and which ids are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from laneway.api.device_ids import container_key
from laneway.api.inventory import DeviceAccess
from laneway.device_plugin.allocation import AllocationSettings, RefusedError, grant, response
from laneway.device_plugin.devices import devices_of
from laneway.device_plugin.folders import Folders

from tests.support.device_plugin.builders import gpu, ids, inventory

NODE = inventory(
    gpu(0, numa_node=1), gpu(1), gpu(2, healthy=False), gpu(3, simulated=False), gpu(4, simulated=False)
)


@pytest.mark.parametrize(
    ("asked", "held", "says"),
    [
        (ids(2, (0, 1)), (), "GPU GPU-2 is not healthy: XID 79: fallen off the bus"),
        (ids(9, (0,)), (), "GPU GPU-9 is not on node n1"),
        ((*ids(0, range(25)), *ids(1, range(25))), (), "50 percent would be split over GPUs"),
        (("nonsense",), (), "'nonsense' is not a Laneway device id"),
        ((), (), "no device id"),
        (ids(0, (1, 2)), ids(0, (2, 3)), "1 of the ids are held by another container, for example GPU-0::2"),
    ],
)
def test_ids_that_no_container_may_get(asked: tuple[str, ...], held: tuple[str, ...], says: str) -> None:
    with pytest.raises(RefusedError) as raised:
        grant(asked, NODE, held)

    assert says in str(raised.value)


def test_a_container_gets_its_folder_the_client_and_its_share() -> None:
    asked = ids(0, range(30))
    folders = Folders(containers=Path("/run/laneway/containers"), client=Path("/var/lib/laneway/client"))

    got = response(grant(asked, NODE), folders, AllocationSettings())

    assert dict(got.envs) == {
        "LANEWAY_DIR": "/run/laneway",
        "LANEWAY_GPUS": "GPU-0",
        "LANEWAY_SHARE_PERCENT": "30",
        "PYTHONPATH": "/opt/laneway:/run/laneway/image-pythonpath",
    }
    assert [(mount.host_path, mount.container_path, mount.read_only) for mount in got.mounts] == [
        (f"/run/laneway/containers/{container_key(asked)}", "/run/laneway", True),
        ("/var/lib/laneway/client", "/opt/laneway", True),
    ]


def test_a_real_gpu_is_given_only_once_its_strategy_is_known() -> None:
    with pytest.raises(RefusedError, match="not decided yet how GPUs reach containers"):
        grant(ids(3, range(10)), NODE)

    node = NODE.model_copy(update={"devices": DeviceAccess(strategy="env", reason="configured")})
    got = response(grant(ids(3, range(10)), node), Folders(), AllocationSettings())

    assert got.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-3"
    assert got.envs["LANEWAY_SHARE_PERCENT"] == "10"
    assert got.envs["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.0981", "a tenth of all but the reserve"


def test_where_gpus_are_withheld_containers_keep_theirs_and_no_other_is_on_offer() -> None:
    node = inventory(gpu(0), gpu(1, healthy=False)).model_copy(update={"withheld_reason": "another plugin"})
    devices = list(devices_of(node, {*ids(0, range(30)), *ids(1, range(10))}))

    assert len(devices) == 200, "the kubelet still knows the ids"
    assert [device.ID for device in devices if device.health == "Healthy"] == [*ids(0, range(30))]


def test_each_gpu_is_on_offer_in_hundredths_with_health_and_without_numa_node() -> None:
    """With NUMA nodes, a kubelet with the policy single-numa-node refuses fractions where the operator placed them."""
    devices = list(devices_of(inventory(gpu(0, offer=200, numa_node=1), gpu(1, healthy=False))))

    assert [device.ID for device in devices] == [*ids(0, range(200)), *ids(1, range(100))]
    assert {device.health for device in devices[:200]} == {"Healthy"}
    assert {device.health for device in devices[200:]} == {"Unhealthy"}
    assert not any(device.HasField("topology") for device in devices)
    assert max(len(device.ID) for device in devices) <= 63
