"""``inventory.json``: what the device plugin knows of the node's GPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from laneway.api.inventory import Inventory, InventoryGPU
from laneway.api.node_config import NodeConfig
from laneway.node_agent.atomic_file import write_atomically
from laneway.node_agent.enforcement.levels import Level
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.protocol import GPUFacts

_MEBIBYTE = 1 << 20


def inventory_of(
    node: str, gpus: Iterable[GPUFacts], config: NodeConfig, health: Callable[[str], GPUHealth]
) -> Inventory:
    """Return the inventory of a node."""
    return Inventory(node=node, gpus=tuple(_gpu(facts, config, health(facts.uuid)) for facts in gpus))


def with_levels(inventory: Inventory, level: Callable[[str], Level]) -> Inventory:
    """Return the inventory with the enforcement that is in force on each GPU."""
    return inventory.model_copy(
        update={"gpus": tuple(with_level(gpu, level(gpu.uuid)) for gpu in inventory.gpus)}
    )


def with_level(gpu: InventoryGPU, level: Level) -> InventoryGPU:
    """Return a GPU with the enforcement that is in force on it."""
    return gpu.model_copy(update={"enforcement": level.enforcement, "enforcement_reason": level.reason})


def write_inventory(path: Path, inventory: Inventory) -> None:
    """Put the inventory where the device plugin looks for it.

    Raises:
        OSError: the folder cannot be written to.
    """
    write_atomically(path, inventory.model_dump_json(indent=1) + "\n")


def _gpu(facts: GPUFacts, config: NodeConfig, health: GPUHealth) -> InventoryGPU:
    return InventoryGPU(
        uuid=facts.uuid,
        index=facts.index,
        model=facts.model,
        memory_bytes=facts.memory_bytes,
        reserve_bytes=min(config.reserve_mebibytes * _MEBIBYTE, facts.memory_bytes),
        allocatable_percent=config.overcommit_percent,
        numa_node=facts.numa_node,
        nvlink_peers=facts.nvlink_peers,
        healthy=health.healthy,
        health_reason=health.reason,
        device_paths=facts.device_paths,
        simulated=facts.simulated,
    )
