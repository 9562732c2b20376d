"""What a container gets with its ids, and which ids are refused. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from laneway.api import names
from laneway.api.device_ids import container_key, shares_of
from laneway.api.inventory import DeviceAccess, Inventory, InventoryGPU
from laneway.api.jax_memory import jax_memory
from laneway.device_plugin.device_handover import device_handover
from laneway.device_plugin.folders import Folders
from laneway.device_plugin.gpu_layouts import split_error
from laneway.device_plugin.interposer_settings import client_start, interposer_mounts
from laneway.device_plugin.mps import mps_settings
from laneway.device_plugin.proto.deviceplugin_pb2 import ContainerAllocateResponse, Mount


class RefusedError(Exception):
    """These ids must not be given to a container; the text says why."""


@dataclass(frozen=True)
class Grant:
    """The checked ids of one container."""

    key: str
    gpus: tuple[InventoryGPU, ...]
    percent: int
    """Percent of each GPU."""
    access: DeviceAccess
    """How the node hands over GPUs."""


def grant(ids: Sequence[str], inventory: Inventory, held: Collection[str] = ()) -> Grant:
    """Check the ids that the kubelet gives to a container.

    Args:
        ids: the container's ids.
        inventory: the node's GPUs.
        held: ids that another container holds by the kubelet's records.

    Raises:
        RefusedError: an id is not of this node, its GPU is unhealthy, a fraction of a GPU would be split,
            an id is held, or it is not decided how a real GPU reaches the container.
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
    if inventory.devices.strategy is None and not all(gpu.simulated for gpu in gpus):
        raise RefusedError("the node agent has not decided yet how GPUs reach containers")
    return Grant(container_key(ids), gpus, shares[gpus[0].uuid], inventory.devices)


@dataclass(frozen=True)
class AllocationSettings:
    """How the node's configuration hands over GPUs."""

    driver_root: str = ""
    """Host folder with the driver's libraries; empty: NVIDIA's runtime adds them."""
    limit_threads: bool = True
    """Whether MPS limits a container's GPU threads to its share."""

    framework_bytes: int = 0
    """The part of a quota that is for the framework's own memory."""


def response(granted: Grant, folders: Folders, settings: AllocationSettings) -> ContainerAllocateResponse:
    """Return the environment, mounts and devices of a container."""
    uuids = ",".join(gpu.uuid for gpu in granted.gpus)
    environment = {
        "LANEWAY_DIR": names.CONTAINER_LANEWAY_FOLDER,
        "LANEWAY_GPUS": uuids,
        "LANEWAY_SHARE_PERCENT": str(granted.percent),
        **client_start(granted.gpus),
    }
    mps = mps_settings(granted.gpus, granted.percent, folders, settings.limit_threads)
    environment.update(mps.environment)
    environment.update(jax_memory(granted.gpus, granted.percent, settings.framework_bytes))
    devices = device_handover(granted.gpus, granted.access, settings.driver_root)
    environment.update(devices.environment)
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
            *devices.mounts,
        ],
        devices=devices.specs,
        cdi_devices=devices.cdi_devices,
    )
