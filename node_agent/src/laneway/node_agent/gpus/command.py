"""``laneway-node-agent gpu``: lists the node's GPUs at its shell, and clears unhealthy ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from laneway.api.inventory import Inventory, InventoryGPU
from laneway.api.records import explain
from laneway.node_agent.gpus.health_file import HealthFile
from laneway.node_agent.host_folders import HostFolders
from pydantic import ValidationError


class CommandError(Exception):
    """The request cannot be carried out; the text says why, and what to write instead."""


def run(arguments: Sequence[str]) -> int:
    """Run the command. Return the exit status: 0, or 1 with a sentence on standard error."""
    options = _parser().parse_args(arguments)
    folders = HostFolders(options.root)
    try:
        gpus = _inventory(folders).gpus
        if options.verb == "list":
            for gpu in gpus:
                print(
                    f"{gpu.index}\t{gpu.uuid}\t{'healthy' if gpu.healthy else 'unhealthy'}\t{gpu.health_reason}"
                )
            return 0
        gpu = _named(options.gpu, gpus)
        if gpu.healthy:
            raise CommandError(f"GPU {gpu.uuid} is healthy: there is nothing to clear")
        HealthFile(folders.agent_state).request_clear(gpu.uuid)
    except (CommandError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"GPU {gpu.uuid} will be healthy again at the agent's next check, unless that fails")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="laneway-node-agent gpu", description="List the GPUs of this node, or clear an unhealthy one."
    )
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="root of the host's folders (%(default)s)"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="list index, uuid, health and reason")
    clear = verbs.add_parser("clear", help="declare an unhealthy GPU healthy")
    clear.add_argument("gpu", metavar="GPU", help="its uuid or index")
    return parser


def _inventory(folders: HostFolders) -> Inventory:
    try:
        return Inventory.model_validate_json(folders.inventory.read_bytes())
    except FileNotFoundError as error:
        raise CommandError(
            f"{folders.inventory} does not exist: the agent has not run on this node"
        ) from error
    except ValidationError as error:
        raise CommandError(explain(error, str(folders.inventory))) from error


def _named(name: str, gpus: Sequence[InventoryGPU]) -> InventoryGPU:
    for gpu in gpus:
        if name in (gpu.uuid, str(gpu.index)):
            return gpu
    known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus)
    raise CommandError(f"there is no GPU {name} on this node: write one of {known}")
