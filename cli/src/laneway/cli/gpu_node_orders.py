"""The command line's own orders in the spec of a GPUNode, written by server-side apply.

An apply replaces all fields that its field manager applied before. The current orders are therefore read from ``managedFields`` first,
and the apply names the resource version in which they were found. On a conflict, the API server refuses, and the change is tried again.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from laneway.api.names import API_VERSION, CLI_FIELD_MANAGER
from laneway.cli.exit_codes import CommandError
from laneway.sdk import ConflictError
from laneway.sdk.cluster import APPLY, Cluster, Object, gpu_nodes_path

_ATTEMPTS = 20
"""The node writes the same object about once per second."""


class GPUNodeOrders:
    """The command line's orders to the pods of one node."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node

    def change(self, change: Callable[[dict[str, Object]], None]) -> None:
        """Change the orders, which ``change`` gets by the UIDs of their pods and modifies in place.

        Raises:
            LanewayError: the node has no GPUNode, or writing it is forbidden.
            CommandError: it changes too fast, or ``change`` raises it.
        """
        path, what = gpu_nodes_path(self._node), f"GPUNode {self._node}"
        for _ in range(_ATTEMPTS):
            found = self._cluster.get(path, what=what)
            orders = without_gone_pods(own_orders(found), found)
            change(orders)
            body = {
                "apiVersion": API_VERSION,
                "kind": "GPUNode",
                "metadata": {"name": self._node, "resourceVersion": found["metadata"]["resourceVersion"]},
                "spec": {"orders": [orders[uid] for uid in sorted(orders)]},
            }
            try:
                self._cluster.patch(
                    path, body, what=what, kind=APPLY, fieldManager=CLI_FIELD_MANAGER, force="true"
                )
            except ConflictError:
                continue
            return
        raise CommandError(f"GPUNode {self._node} changes faster than it can be written; try again")


def own_orders(gpu_node: Object) -> dict[str, Object]:
    """Return the orders of a GPUNode that the command line gave, by the UIDs of their pods."""
    mine: set[str] = set()
    for entry in gpu_node["metadata"].get("managedFields") or ():
        if entry.get("manager") == CLI_FIELD_MANAGER and entry.get("operation") == "Apply":
            fields = (entry.get("fieldsV1") or {}).get("f:spec", {}).get("f:orders", {})
            mine |= {json.loads(key[2:])["podUID"] for key in fields if key.startswith("k:")}
    orders = (gpu_node.get("spec") or {}).get("orders") or ()
    return {order["podUID"]: dict(order) for order in orders if order["podUID"] in mine}


def without_gone_pods(orders: dict[str, Object], gpu_node: Object) -> dict[str, Object]:
    """Return the orders without those to pods that have left the node, if the node has reported all of its pods."""
    sessions = [
        session
        for gpu in (gpu_node.get("status") or {}).get("gpus") or ()
        for session in gpu.get("sessions") or ()
    ]
    present = {session.get("podUID", "") for session in sessions if session["state"] != "Ended"}
    if "" in present or not gpu_node.get("status"):
        return orders
    return {uid: order for uid, order in orders.items() if uid in present}
