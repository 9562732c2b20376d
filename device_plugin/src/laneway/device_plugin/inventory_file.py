"""Watches `inventory.json`, which the agent writes: the node's GPUs and their health.

An invalid file changes nothing: the last valid inventory stays in force, and the error is logged once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

from laneway.api.inventory import Inventory
from laneway.api.records import explain
from laneway.device_plugin.latest_value import LatestValue
from pydantic import ValidationError

_log = logging.getLogger(__name__)

_Fingerprint = tuple[int, int, int]


class InventoryError(Exception):
    """The file is not an inventory of this node; the text names the file, the field and what was found."""


def read_inventory(path: Path, node: str) -> Inventory:
    """Read the inventory from a file.

    Raises:
        OSError: the file cannot be read.
        InventoryError: it is not an inventory, or not this node's.
    """
    try:
        inventory = Inventory.model_validate(json.loads(path.read_bytes()))
    except ValidationError as error:
        raise InventoryError(explain(error, str(path))) from error
    except ValueError as error:
        raise InventoryError(f"{path}: not JSON: {error}") from error
    if inventory.node != node:
        raise InventoryError(f"{path}: node: the file is for node {inventory.node!r}, but this is {node!r}")
    uuids = [gpu.uuid for gpu in inventory.gpus]
    duplicates = sorted({uuid for uuid in uuids if uuids.count(uuid) > 1})
    if duplicates:
        raise InventoryError(f"{path}: gpus: uuid {duplicates[0]!r} appears more than once")
    return inventory


class InventoryWatcher:
    """Publishes the inventory whenever the file changes to a different valid one."""

    def __init__(self, path: Path, node: str, poll_seconds: float = 0.5) -> None:
        self.inventory: LatestValue[Inventory] = LatestValue()
        self.problem = f"waiting for {path}, which the node agent writes"
        self._path = path
        self._node = node
        self._poll_seconds = poll_seconds
        self._seen: _Fingerprint | None = None

    async def run(self) -> None:
        """Watch the file until cancelled."""
        self.look()
        if self.inventory.value is None:
            _log.info("%s", self.problem)
        while True:
            self.look()
            await asyncio.sleep(self._poll_seconds)

    def look(self) -> None:
        """Read the file if it changed since the last reading."""
        try:
            stat = self._path.stat()
            fingerprint = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if fingerprint == self._seen:
                return
            inventory = read_inventory(self._path, self._node)
        except FileNotFoundError:
            # The agent replaces the file by renaming. So a missing file means that it did not exist yet or
            # that the folder was wiped; the GPUs are still there.
            return
        except InventoryError as error:
            self._seen = fingerprint
            self._reject(str(error))
            return
        except OSError as error:
            self._reject(str(error))  # perhaps for this moment only, so the file is read again
            return
        self._seen, self.problem = fingerprint, ""
        if inventory != self.inventory.value:
            _log.info("inventory: %s", describe(inventory))
            self.inventory.publish(inventory)

    def _reject(self, reason: str) -> None:
        kept = (
            "keeping the last valid one"
            if self.inventory.value
            else "nothing is advertised until it is fixed"
        )
        problem = f"{reason} ({kept})"
        if problem != self.problem:
            _log.error("inventory rejected reason=%r", problem)
        self.problem = problem


def describe(inventory: Inventory) -> str:
    """Return the inventory as one line for the log."""
    if not inventory.gpus:
        return f"no GPUs: {inventory.no_gpus_reason or 'no reason given'}"
    unhealthy = [
        f"{gpu.uuid}: {gpu.health_reason or 'no reason given'}" for gpu in inventory.gpus if not gpu.healthy
    ]
    models = sorted({gpu.model for gpu in inventory.gpus})
    text = f"{len(inventory.gpus)} GPUs ({', '.join(models)})"
    text = f"{text}; unhealthy: {'; '.join(unhealthy)}" if unhealthy else text
    return f"{text}; withheld: {inventory.withheld_reason}" if inventory.withheld_reason else text
