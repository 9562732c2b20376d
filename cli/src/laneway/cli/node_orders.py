"""The command line's own orders in the spec of a GPUNode, written by server-side apply.

An apply replaces all that its field manager said before. So what is said already is found first, in ``managedFields``, and the version that it was found
in goes with the apply: where somebody was faster, the API server refuses, and it is done again.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from laneway.api.names import API_VERSION, CLI_FIELD_MANAGER
from laneway.cli.cluster import Cluster, ConflictError, Object
from laneway.cli.exit_codes import CommandError

_TRIES = 20
"""The node writes the same object about once a second."""


class NodeOrders:
    """Orders to the pods of one node."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node

    def change(self, how: Callable[[dict[str, Object]], None]) -> None:
        """Change the orders, by the uids of their pods, in place.

        Raises:
            CommandError: the node has no GPUNode, it may not be written, or ``how`` raises it.
        """
        for _ in range(_TRIES):
            found = self._cluster.gpu_node(self._node)
            orders = without_the_gone(own_orders(found), found)
            how(orders)
            body = {
                "apiVersion": API_VERSION,
                "kind": "GPUNode",
                "metadata": {"name": self._node, "resourceVersion": found["metadata"]["resourceVersion"]},
                "spec": {"orders": [orders[uid] for uid in sorted(orders)]},
            }
            try:
                self._cluster.apply_gpu_node(self._node, body)
            except ConflictError:
                continue
            return
        raise CommandError(f"GPUNode {self._node} changes faster than it can be written; try again")


def own_orders(gpu_node: Object) -> dict[str, Object]:
    """Return the orders of a GPUNode that the command line gave, by the uids of their pods."""
    mine: set[str] = set()
    for entry in gpu_node["metadata"].get("managedFields") or ():
        if entry.get("manager") == CLI_FIELD_MANAGER and entry.get("operation") == "Apply":
            fields = (entry.get("fieldsV1") or {}).get("f:spec", {}).get("f:orders", {})
            mine |= {json.loads(key[2:])["podUID"] for key in fields if key.startswith("k:")}
    orders = (gpu_node.get("spec") or {}).get("orders") or ()
    return {order["podUID"]: dict(order) for order in orders if order["podUID"] in mine}


def without_the_gone(orders: dict[str, Object], gpu_node: Object) -> dict[str, Object]:
    """Return the orders less those to pods that the node has no more. It says who they are once it knows of all of them."""
    sessions = [
        session
        for gpu in (gpu_node.get("status") or {}).get("gpus") or ()
        for session in gpu.get("sessions") or ()
    ]
    there = {session.get("podUID", "") for session in sessions if session["state"] != "Ended"}
    if "" in there or not gpu_node.get("status"):
        return orders
    return {uid: order for uid, order in orders.items() if uid in there}
