"""The devices advertised to the kubelet: one for each hundredth of a GPU on offer.

They carry no NUMA node. A hundredth may become part of a whole GPU or of a fraction. The kubelet's topology
manager would choose among single hundredths: it refuses a fraction whose GPU is on another NUMA node than the
one it prefers, and it may fill a request with hundredths of several GPUs. `topology` keeps whole GPUs of one
request on one NUMA node instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from laneway.api.device_ids import device_id
from laneway.api.inventory import Inventory
from laneway.device_plugin.proto.deviceplugin_pb2 import Device

HEALTHY = "Healthy"
UNHEALTHY = "Unhealthy"


def devices_of(inventory: Inventory, held: Collection[str] = ()) -> Iterator[Device]:
    """Yield the devices of all GPUs, in the order of GPUs and slots.

    Where the inventory withholds GPUs, only those that containers hold are healthy: kube-scheduler then has none for new pods.
    """
    for gpu in inventory.gpus:
        for slot in range(gpu.allocatable_percent):
            identifier = device_id(gpu.uuid, slot)
            usable = gpu.healthy and (not inventory.withheld_reason or identifier in held)
            yield Device(ID=identifier, health=HEALTHY if usable else UNHEALTHY)
