"""What a container gets with its ids, and which ids are refused. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from laneway.api import names
from laneway.api.device_ids import container_key, shares_of
from laneway.api.inventory import Inventory, InventoryGPU
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.gpu_layouts import split_error
from laneway.device_plugin.interposer_settings import interposer_mounts
from laneway.device_plugin.mps import mps_settings
from laneway.device_plugin.proto.deviceplugin_pb2 import CDIDevice, ContainerAllocateResponse, Mount

DeviceStrategy = Literal["env", "cdi"]

CDI_KIND = "nvidia.com/gpu"


class RefusedError(Exception):
    """These ids must not be given to a container; the text says why."""


@dataclass(frozen=True)
class Grant:
    """The checked ids of one container."""

    key: str
    gpus: tuple[InventoryGPU, ...]
    percent: int
    """Percent of each GPU."""


def grant(ids: Sequence[str], inventory: Inventory, held: Collection[str] = ()) -> Grant:
    """Check the ids that the kubelet gives to a container.

    Args:
        ids: the container's ids.
        inventory: the node's GPUs.
        held: ids that another container holds by the kubelet's records.

    Raises:
        RefusedError: an id is not of this node, its GPU is unhealthy, a fraction of a GPU would be split, or
            an id is held.
    """
    try:
        shares = shares_of(ids)
    except ValueError as error:
        raise RefusedError(str(error)) from error
    if not shares:
        raise RefusedError("the request holds no device id")
    by_uuid = {gpu.uuid: gpu for gpu in inventory.gpus}
    for uuid in shares:
        if uuid not in by_uuid:
            raise RefusedError(f"GPU {uuid} is not on node {inventory.node}")
        if not by_uuid[uuid].healthy:
            raise RefusedError(
                f"GPU {uuid} is not healthy: {by_uuid[uuid].health_reason or 'no reason given'}"
            )
    split = split_error(shares, inventory.gpus)
    if split:
        raise RefusedError(split)
    duplicates = sorted(set(ids) & set(held))
    if duplicates:
        raise RefusedError(
            f"{len(duplicates)} of the ids are held by another container, for example {duplicates[0]}"
        )
    gpus = tuple(gpu for gpu in inventory.gpus if gpu.uuid in shares)
    return Grant(container_key(ids), gpus, shares[gpus[0].uuid])


@dataclass(frozen=True)
class AllocationSettings:
    """How the node's configuration hands over GPUs."""

    strategy: DeviceStrategy = "env"
    limit_threads: bool = True
    """Whether MPS limits a container's GPU threads to its share."""


def response(granted: Grant, folders: Folders, settings: AllocationSettings) -> ContainerAllocateResponse:
    """Return the environment, mounts and devices of a container. Simulated GPUs have no device."""
    uuids = ",".join(gpu.uuid for gpu in granted.gpus)
    environment = {
        "LANEWAY_DIR": names.CONTAINER_LANEWAY_FOLDER,
        "LANEWAY_GPUS": uuids,
        "LANEWAY_SHARE_PERCENT": str(granted.percent),
        "PYTHONPATH": f"{names.CONTAINER_CLIENT_FOLDER}:{names.CONTAINER_IMAGE_PATH}",
    }
    mps = mps_settings(granted.gpus, granted.percent, folders, settings.limit_threads)
    environment.update(mps.environment)
    real = [gpu for gpu in granted.gpus if not gpu.simulated]
    cdi_devices = []
    if real and settings.strategy == "env":
        environment["NVIDIA_VISIBLE_DEVICES"] = ",".join(gpu.uuid for gpu in real)
    elif real:
        cdi_devices = [CDIDevice(name=f"{CDI_KIND}={gpu.uuid}") for gpu in real]
    return ContainerAllocateResponse(
        envs=environment,
        mounts=[
            Mount(
                container_path=names.CONTAINER_LANEWAY_FOLDER,
                host_path=str(folders.containers / granted.key),
                read_only=True,  # connecting to a socket is not a write, and the container must not change its record
            ),
            Mount(
                container_path=names.CONTAINER_CLIENT_FOLDER, host_path=str(folders.client), read_only=True
            ),
            *interposer_mounts(granted.gpus, folders),
            *mps.mounts,
        ],
        cdi_devices=cdi_devices,
    )
