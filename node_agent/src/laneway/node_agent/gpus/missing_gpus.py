"""Finds GPUs that fell off the bus while no agent ran.

The driver does not list them. An agent without them would leave their containers without a socket and would
not report them.
"""

from __future__ import annotations

import logging
from pathlib import Path

from laneway.api.inventory import Inventory, InventoryGPU
from laneway.api.records import explain
from laneway.node_agent.gpus.protocol import GPUInfo
from pydantic import ValidationError

_log = logging.getLogger(__name__)


def with_missing_gpus(found: tuple[GPUInfo, ...], inventory_file: Path) -> tuple[GPUInfo, ...]:
    """Return the found GPUs, and those that an earlier agent process listed since the node was booted.

    A boot empties the file system of the inventory, so GPUs that were removed from the machine are forgotten
    then. Reading a GPU that is still missing fails, which marks it unhealthy. Simulated GPUs never go
    missing: their file lists them.
    """
    if any(gpu.simulated for gpu in found):
        return found
    there = {gpu.uuid for gpu in found}
    missing = [gpu for gpu in _named_before(inventory_file) if gpu.uuid not in there and not gpu.simulated]
    for gpu in missing:
        _log.error("GPU is missing gpu=%s index=%d model=%r", gpu.uuid, gpu.index, gpu.model)
    return tuple(sorted((*found, *map(_gpu_info, missing)), key=lambda gpu: gpu.index))


def _named_before(inventory_file: Path) -> tuple[InventoryGPU, ...]:
    try:
        return Inventory.model_validate_json(inventory_file.read_bytes()).gpus
    except FileNotFoundError:
        return ()
    except OSError as error:
        _log.warning("cannot look for missing GPUs path=%s error=%r", inventory_file, error.strerror)
    except ValidationError as error:
        _log.warning("cannot look for missing GPUs error=%r", explain(error, str(inventory_file)))
    return ()


def _gpu_info(gpu: InventoryGPU) -> GPUInfo:
    return GPUInfo(
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        numa_node=gpu.numa_node,
        nvlink_peers=gpu.nvlink_peers,
        device_paths=gpu.device_paths,
    )
