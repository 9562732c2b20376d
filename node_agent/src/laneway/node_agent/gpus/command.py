"""``laneway-node-agent gpu``: what an operator at the node's shell sees of its GPUs, and may say of them."""

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
    """What was asked for cannot be done; the text says why, and what to write instead."""


def run(arguments: Sequence[str]) -> int:
    """Do what is asked for; returns the exit status: 0, or 1 with a sentence on standard error."""
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
        HealthFile(folders.agent_state).ask_to_clear(gpu.uuid)
    except (CommandError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"GPU {gpu.uuid} is in use again with the agent's next look, unless it fails then")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="laneway-node-agent gpu", description="The GPUs of this node.")
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="where the host's folders begin (%(default)s)"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("list", help="index, uuid, health and the reason for it")
    clear = verbs.add_parser("clear", help="say that a GPU that is out of use is sound")
    clear.add_argument("gpu", metavar="GPU", help="its uuid or index")
    return parser


def _inventory(folders: HostFolders) -> Inventory:
    try:
        return Inventory.model_validate_json(folders.inventory.read_bytes())
    except FileNotFoundError as error:
        raise CommandError(f"{folders.inventory} is not there: the agent has not run on this node") from error
    except ValidationError as error:
        raise CommandError(explain(error, str(folders.inventory))) from error


def _named(name: str, gpus: Sequence[InventoryGPU]) -> InventoryGPU:
    for gpu in gpus:
        if name in (gpu.uuid, str(gpu.index)):
            return gpu
    known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in gpus)
    raise CommandError(f"there is no GPU {name} on this node: write one of {known}")
