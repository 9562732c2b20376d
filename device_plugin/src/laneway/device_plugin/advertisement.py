"""Checks whether the cluster knows of this node's shares; only then is the plugin ready.

A registration is not enough: the kubelet reports new devices to the API server with its next node status,
seconds later. So the Node is read until it shows them, once for each registration. Nor is the Node enough: it
may still show those of the plugin before this one, so the kubelet has to follow this one's devices.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from laneway.api import names, quantity
from laneway.api.inventory import Inventory
from laneway.device_plugin.latest_value import LatestValue
from laneway.device_plugin.node_pods import APIUnavailableError
from laneway.device_plugin.registration import Registration

_log = logging.getLogger(__name__)


class NodeSource(Protocol):
    """Reads this plugin's Node."""

    async def read_node(self, timeout_seconds: float) -> dict[str, Any]:
        """Return the Node.

        Raises:
            APIUnavailableError: no answer within the time, or none that is a Node.
        """


class Advertisement:
    """Compares the Node's allocatable shares with the inventory."""

    def __init__(
        self,
        source: NodeSource | None,
        inventory: LatestValue[Inventory],
        registration: Registration,
        poll_seconds: float = 1.0,
    ) -> None:
        """Without a source (no API server is configured), a registration alone counts as ready."""
        self.problem = ""
        self._source = source
        self._inventory = inventory
        self._registration = registration
        self._poll_seconds = poll_seconds
        self._seen_registration = 0

    @property
    def ready(self) -> bool:
        """Return whether the kubelet follows its devices and the Node shows its shares, or the node has no GPUs."""
        if self.no_gpus_reason:
            return True
        heard = self._source is None or self._seen_registration == self._registration.count
        return self._registration.followed and heard

    @property
    def no_gpus_reason(self) -> str:
        """Return why the node has no GPUs; empty if it has some, and while that is not known."""
        inventory = self._inventory.value
        if inventory is None or inventory.gpus:
            return ""
        return f"no GPUs: {inventory.no_gpus_reason}"

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            if self._source is not None and self._registration.followed and not self.ready:
                await self._look(self._source)
            await asyncio.sleep(self._poll_seconds)

    async def _look(self, source: NodeSource) -> None:
        count, inventory = self._registration.count, self._inventory.value
        if inventory is not None and inventory.withheld_reason:
            self.problem, self._seen_registration = "", count
            _log.info("shares withheld reason=%r", inventory.withheld_reason)
            return
        try:
            offered = offered_percent(await source.read_node(5 * self._poll_seconds))
        except APIUnavailableError as error:
            self.problem = str(error)
            return
        wanted = sum(gpu.allocatable_percent for gpu in inventory.gpus if gpu.healthy) if inventory else 0
        if offered != wanted:
            self.problem = f"the Node offers {offered} of {names.GPU_PERCENT} so far, not {wanted}"
            return
        self.problem = ""
        self._seen_registration = count
        _log.info("Node shows the shares resource=%s allocatable=%d", names.GPU_PERCENT, offered)


def offered_percent(node: dict[str, Any]) -> int:
    """Return how many hundredths of GPUs a Node offers to pods."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return int(quantity.parse(allocatable.get(names.GPU_PERCENT, 0)))
