"""The devices advertised to the kubelet: one for each hundredth of a GPU on offer."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.api.device_ids import device_id
from laneway.api.inventory import Inventory
from laneway.device_plugin.proto.deviceplugin_pb2 import Device, NUMANode, TopologyInfo

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


def devices_of(inventory: Inventory) -> Iterator[Device]:
    """Yield the devices of all GPUs, in the order of GPUs and slots."""
    for gpu in inventory.gpus:
        topology = None if gpu.numa_node is None else TopologyInfo(nodes=[NUMANode(ID=gpu.numa_node)])
        health = HEALTHY if gpu.healthy else UNHEALTHY
        for slot in range(gpu.allocatable_percent):
            yield Device(ID=device_id(gpu.uuid, slot), health=health, topology=topology)
