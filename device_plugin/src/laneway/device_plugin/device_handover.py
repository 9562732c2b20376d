"""What makes a container's GPUs reachable in it, by the strategy that the node agent decided. Pure.

Except with ``env``, NVIDIA's container runtime is told to add no GPU, whatever the image's own variable says:
``void`` (add nothing) or ``none`` (add the driver's libraries only). A pod's own variable still wins over
both; docs/node.md says what then holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from laneway.api import names
from laneway.api.inventory import DeviceAccess, InventoryGPU
from laneway.device_plugin.proto.deviceplugin_pb2 import CDIDevice, DeviceSpec, Mount

_VISIBLE = "NVIDIA_VISIBLE_DEVICES"
_MOUNTS_FOLDER = "/var/run/nvidia-container-devices"
"""Fixed by NVIDIA's container runtime: the name of each mount in it is a GPU."""


@dataclass(frozen=True)
class DeviceHandover:
    """The part of `Allocate`'s answer that hands over GPUs."""

    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: Sequence[Mount] = ()
    specs: Sequence[DeviceSpec] = ()
    cdi_devices: Sequence[CDIDevice] = ()


def device_handover(
    gpus: Sequence[InventoryGPU], access: DeviceAccess, driver_root: str = ""
) -> DeviceHandover:
    """Return what hands these GPUs to a container. A simulated GPU without a device node needs nothing.

    Args:
        gpus: the container's GPUs.
        access: the node's strategy.
        driver_root: host folder with the driver's libraries; empty: NVIDIA's runtime adds them.
    """
    gpus = [gpu for gpu in gpus if gpu.device_paths or not gpu.simulated]
    if not gpus or access.strategy is None:
        return DeviceHandover()
    if access.strategy == "env":
        return DeviceHandover({_VISIBLE: ",".join(gpu.uuid for gpu in gpus)})
    if access.strategy == "volume-mounts":
        mounts = [
            Mount(container_path=f"{_MOUNTS_FOLDER}/{gpu.uuid}", host_path="/dev/null", read_only=True)
            for gpu in gpus
        ]
        return DeviceHandover({_VISIBLE: "void"}, mounts)
    if access.cdi_kind == names.NVIDIA_CDI_KIND:  # such a spec has the libraries too
        return DeviceHandover({_VISIBLE: "void"}, cdi_devices=_cdi_devices(gpus, access))
    environment = {_VISIBLE: "void" if driver_root else "none"}
    mounts = _driver_mounts(driver_root)
    if access.strategy == "cdi":
        return DeviceHandover(environment, mounts, cdi_devices=_cdi_devices(gpus, access))
    paths = [*(path for gpu in gpus for path in gpu.device_paths), *access.control_paths]
    specs = [DeviceSpec(container_path=path, host_path=path, permissions="rw") for path in paths]
    return DeviceHandover(environment, mounts, specs)


def _cdi_devices(gpus: Sequence[InventoryGPU], access: DeviceAccess) -> list[CDIDevice]:
    return [CDIDevice(name=f"{access.cdi_kind}={gpu.uuid}") for gpu in gpus]


def _driver_mounts(driver_root: str) -> list[Mount]:
    if not driver_root:
        return []
    return [Mount(container_path=names.CONTAINER_DRIVER_FOLDER, host_path=driver_root, read_only=True)]
