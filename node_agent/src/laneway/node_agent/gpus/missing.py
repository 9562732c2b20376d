"""GPUs that fell off the bus while no agent ran: the driver does not name them, and an agent that forgot them would leave the
containers on them without a door, and the cluster without a word about them."""

from __future__ import annotations

import logging
from pathlib import Path

from laneway.api.inventory import Inventory, InventoryGPU
from laneway.api.records import explain
from laneway.node_agent.gpus.protocol import GPUFacts
from pydantic import ValidationError

_log = logging.getLogger(__name__)


def with_missing(found: tuple[GPUFacts, ...], inventory_file: Path) -> tuple[GPUFacts, ...]:
    """Return the GPUs that were found, and those that the agent before had named since the node was booted.

    The inventory lies on a file system that a boot empties, so a GPU that was taken out of the machine is forgotten then.
    Looking at one that is still missing fails, which takes it out of use. Simulated GPUs do not get lost: their file says which
    there are.
    """
    if any(gpu.simulated for gpu in found):
        return found
    there = {gpu.uuid for gpu in found}
    missing = [gpu for gpu in _named_before(inventory_file) if gpu.uuid not in there and not gpu.simulated]
    for gpu in missing:
        _log.error("GPU %s (%d, %s) is missing", gpu.uuid, gpu.index, gpu.model)
    return tuple(sorted((*found, *map(_facts, missing)), key=lambda gpu: gpu.index))


def _named_before(inventory_file: Path) -> tuple[InventoryGPU, ...]:
    try:
        return Inventory.model_validate_json(inventory_file.read_bytes()).gpus
    except FileNotFoundError:
        return ()
    except OSError as error:
        _log.warning("%s cannot be read, so missing GPUs are not known: %s", inventory_file, error.strerror)
    except ValidationError as error:
        _log.warning("missing GPUs are not known: %s", explain(error, str(inventory_file)))
    return ()


def _facts(gpu: InventoryGPU) -> GPUFacts:
    return GPUFacts(
        uuid=gpu.uuid,
        index=gpu.index,
        model=gpu.model,
        memory_bytes=gpu.memory_bytes,
        numa_node=gpu.numa_node,
        nvlink_peers=gpu.nvlink_peers,
        device_paths=gpu.device_paths,
    )
