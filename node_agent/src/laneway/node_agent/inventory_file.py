"""Writes ``inventory.json``: what the device plugin knows of the node's GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from laneway.api.gpu_sharing import OFFERED_PERCENT
from laneway.api.inventory import DeviceAccess, Inventory, InventoryGPU
from laneway.api.node_config import NodeConfig
from laneway.node_agent.atomic_file import write_atomically
from laneway.node_agent.enforcement.levels import Level, with_level
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUInfo
from pydantic import ValidationError

_MEBIBYTE = 1 << 20


def inventory_of(
    node: str,
    gpus: Iterable[GPUInfo],
    config: NodeConfig,
    health: Callable[[str], GPUHealth],
    access: DeviceAccess | None = None,
    withheld_reason: str = "",
) -> Inventory:
    """Build the inventory of a node. ``withheld_reason``: why no new container gets a share of its GPUs."""
    return Inventory(
        node=node,
        gpus=tuple(_gpu(info, config, health(info.uuid)) for info in gpus),
        withheld_reason=withheld_reason,
        devices=access or DeviceAccess(),
    )


def write_no_gpus(path: Path, node: str, reason: str) -> None:
    """Write that the node has no GPUs, and why. An inventory with GPUs stays: a driver that does not answer now
    does not take them away, and a later agent finds by it which ones are missing.

    Raises:
        OSError: the folder cannot be written to.
    """
    try:
        if Inventory.model_validate_json(path.read_bytes()).gpus:
            return
    except (FileNotFoundError, ValidationError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    write_inventory(path, Inventory(node=node, gpus=(), no_gpus_reason=reason))


def with_levels(inventory: Inventory, level: Callable[[str], Level]) -> Inventory:
    """Return the inventory with the enforcement level in force on each GPU."""
    return inventory.model_copy(
        update={"gpus": tuple(with_level(gpu, level(gpu.uuid)) for gpu in inventory.gpus)}
    )


def write_inventory(path: Path, inventory: Inventory) -> None:
    """Write the inventory for the device plugin.

    Raises:
        OSError: the folder cannot be written to.
    """
    write_atomically(path, inventory.model_dump_json(indent=1) + "\n")


def _gpu(info: GPUInfo, config: NodeConfig, health: GPUHealth) -> InventoryGPU:
    return InventoryGPU(
        uuid=info.uuid,
        index=info.index,
        model=info.model,
        memory_bytes=info.memory_bytes,
        reserve_bytes=min(config.reserve_mebibytes * _MEBIBYTE, info.memory_bytes),
        allocatable_percent=OFFERED_PERCENT[config.sharing],
        numa_node=info.numa_node,
        nvlink_peers=info.nvlink_peers,
        healthy=health.healthy,
        health_reason=health.reason,
        device_paths=info.device_paths,
        simulated=info.simulated,
    )
