"""The Leases of played agents."""

from __future__ import annotations

import time

from laneway.api.node_lease import DURATION_SECONDS, lease_name
from laneway.api.rfc3339 import format_time
from laneway.operator.state.resources import LEASES
from laneway.operator.watch.apiserver import ApiServer, Raw

from tests.performance.scale import objects
from tests.performance.scale.run import SYSTEM


class AgentLeases:
    """Creates and renews them, as the agents of numbered nodes do."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._versions: dict[int, str] = {}

    async def create(self, number: int) -> None:
        """Create the Lease of a node."""
        answer = await self._api.request("POST", LEASES.path(SYSTEM), body=_lease(number))
        self._versions[number] = answer["metadata"]["resourceVersion"]

    async def renew(self, number: int) -> None:
        """Renew the Lease of a node."""
        body = _lease(number)
        body["metadata"]["resourceVersion"] = self._versions[number]
        answer = await self._api.request("PUT", LEASES.path(SYSTEM, body["metadata"]["name"]), body=body)
        self._versions[number] = answer["metadata"]["resourceVersion"]


def _lease(number: int) -> Raw:
    node = objects.node_name(number)
    spec = {
        "holderIdentity": node,
        "leaseDurationSeconds": DURATION_SECONDS,
        "renewTime": format_time(time.time()),
    }
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": lease_name(node)},
        "spec": spec,
    }
