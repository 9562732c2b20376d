"""The devices advertised to the kubelet: one for each hundredth of a GPU on offer.

They carry no NUMA node. A hundredth may become part of a whole GPU or of a fraction. The kubelet's topology
manager would choose among single hundredths: it refuses a fraction whose GPU is on another NUMA node than the
one it prefers, and it may fill a request with hundredths of several GPUs. `topology` keeps whole GPUs of one
request on one NUMA node instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from laneway.api.device_ids import device_id
from laneway.api.inventory import Inventory
from laneway.device_plugin.proto.deviceplugin_pb2 import Device

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


def devices_of(inventory: Inventory) -> Iterator[Device]:
    """Yield the devices of all GPUs, in the order of GPUs and slots."""
    for gpu in inventory.gpus:
        health = HEALTHY if gpu.healthy else UNHEALTHY
        for slot in range(gpu.allocatable_percent):
            yield Device(ID=device_id(gpu.uuid, slot), health=health)
