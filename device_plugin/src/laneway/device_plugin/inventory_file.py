"""Follows `inventory.json`, which the agent writes: which GPUs the node has, and which are healthy.

A file that is there but wrong changes nothing: the last good inventory stays in force and the mistake is said once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

from laneway.api.inventory import Inventory
from laneway.api.records import explain
from laneway.device_plugin.latest import Latest
from pydantic import ValidationError

_log = logging.getLogger(__name__)

_Fingerprint = tuple[int, int, int]


class InventoryError(Exception):
    """The file is not an inventory of this node; the text names the file, the field and what was found."""


def read_inventory(path: Path, node: str) -> Inventory:
    """Return the inventory in a file.

    Raises:
        OSError: the file cannot be read.
        InventoryError: it is not an inventory, or not this node's.
    """
    try:
        inventory = Inventory.model_validate(json.loads(path.read_bytes()))
    except ValidationError as error:
        raise InventoryError(explain(error, str(path))) from error
    except ValueError as error:
        raise InventoryError(f"{path}: this is not JSON: {error}") from error
    if inventory.node != node:
        raise InventoryError(f"{path}: node: the file is of node {inventory.node!r}, and this is {node!r}")
    uuids = [gpu.uuid for gpu in inventory.gpus]
    doubled = sorted({uuid for uuid in uuids if uuids.count(uuid) > 1})
    if doubled:
        raise InventoryError(f"{path}: gpus: uuid {doubled[0]!r} is there more than once")
    return inventory


class InventoryFollower:
    """Publishes the inventory whenever the file changes to another good one."""

    def __init__(self, path: Path, node: str, poll_seconds: float = 0.5) -> None:
        self.inventory: Latest[Inventory] = Latest()
        self.problem = f"waiting for {path}, which the node agent writes"
        self._path = path
        self._node = node
        self._poll_seconds = poll_seconds
        self._seen: _Fingerprint | None = None

    async def run(self) -> None:
        """Follow the file until cancelled."""
        self.look()
        if self.inventory.value is None:
            _log.info("%s", self.problem)
        while True:
            self.look()
            await asyncio.sleep(self._poll_seconds)

    def look(self) -> None:
        """Read the file if it is another one than at the last look."""
        try:
            stat = self._path.stat()
            fingerprint = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if fingerprint == self._seen:
                return
            inventory = read_inventory(self._path, self._node)
            self._seen = fingerprint
        except FileNotFoundError:
            # The agent replaces the file by renaming, so a missing one means that it was not there yet or that
            # somebody wiped the folder; the GPUs are there all the same.
            return
        except (OSError, InventoryError) as error:
            self._refuse(str(error), fingerprint)
            return
        self.problem = ""
        if inventory != self.inventory.value:
            _log.info("inventory: %s", describe(inventory))
            self.inventory.publish(inventory)

    def _refuse(self, reason: str, fingerprint: _Fingerprint) -> None:
        self._seen = fingerprint
        kept = (
            "keeping the last good one"
            if self.inventory.value
            else "nothing is advertised until it is mended"
        )
        self.problem = f"{reason} ({kept})"
        _log.error("inventory refused: %s", self.problem)


def describe(inventory: Inventory) -> str:
    """Return the inventory as one line for the log."""
    ill = [
        f"{gpu.uuid}: {gpu.health_reason or 'no reason given'}" for gpu in inventory.gpus if not gpu.healthy
    ]
    models = sorted({gpu.model for gpu in inventory.gpus})
    text = f"{len(inventory.gpus)} GPUs ({', '.join(models)})"
    return f"{text}; unhealthy: {'; '.join(ill)}" if ill else text
