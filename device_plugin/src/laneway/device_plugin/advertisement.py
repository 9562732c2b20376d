"""Whether the cluster knows of this node's shares: only then is the plugin ready.

A registration is not enough to send pods here: the kubelet tells the API server of new devices with its next report on
the node, seconds later. So the Node is read until it shows them, once for each registration.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from laneway.api import names, quantity
from laneway.api.inventory import Inventory
from laneway.device_plugin.latest import Latest
from laneway.device_plugin.node_pods import ApiAwayError
from laneway.device_plugin.registration import Registration

_log = logging.getLogger(__name__)


class NodeSource(Protocol):
    """Where this plugin's Node is read from."""

    async def read_node(self, timeout_seconds: float) -> dict[str, Any]:
        """Return the Node.

        Raises:
            ApiAwayError: no answer within the time, or none that is a Node.
        """


class Advertisement:
    """Compares what the Node offers with what the inventory has."""

    def __init__(
        self,
        source: NodeSource | None,
        inventory: Latest[Inventory],
        registration: Registration,
        poll_seconds: float = 1.0,
    ) -> None:
        """Without a source (no API server is configured) a registration is all that can be known."""
        self.problem = ""
        self._source = source
        self._inventory = inventory
        self._registration = registration
        self._poll_seconds = poll_seconds
        self._seen_registration = 0

    @property
    def ready(self) -> bool:
        """Whether the kubelet has the plugin registered, and the cluster has heard of it from the kubelet."""
        heard = self._source is None or self._seen_registration == self._registration.count
        return self._registration.registered and heard

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            if self._source is not None and self._registration.registered and not self.ready:
                await self._look(self._source)
            await asyncio.sleep(self._poll_seconds)

    async def _look(self, source: NodeSource) -> None:
        count, inventory = self._registration.count, self._inventory.value
        try:
            offered = offered_percent(await source.read_node(5 * self._poll_seconds))
        except ApiAwayError as error:
            self.problem = str(error)
            return
        wanted = sum(gpu.allocatable_percent for gpu in inventory.gpus if gpu.healthy) if inventory else 0
        if offered != wanted:
            self.problem = f"the Node offers {offered} of {names.GPU_PERCENT} so far, not {wanted}"
            return
        self.problem = ""
        self._seen_registration = count
        _log.info("the cluster knows of %d of %s here", offered, names.GPU_PERCENT)


def offered_percent(node: dict[str, Any]) -> int:
    """Return how many hundredths of GPUs a Node of the API server offers to pods."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    return int(quantity.parse(allocatable.get(names.GPU_PERCENT, 0)))
