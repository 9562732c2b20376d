"""Combines all orders of a node: those of the cluster and those of the node's file. The stronger one
applies."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from laneway.api.container_record import ContainerRecord
from laneway.api.orders import PodOrder, strongest
from laneway.node_agent.orders.orders_file import FileOrder
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)


class EffectiveOrders:
    """Keeps the latest orders of each source and applies the result. Used on the loop's thread."""

    def __init__(self, gpus: Mapping[str, GPUTurns]) -> None:
        self._gpus = gpus
        self._cluster_orders: tuple[PodOrder, ...] = ()
        self._file_orders: tuple[PodOrder, ...] = ()
        for turns in gpus.values():
            turns.order_of = self.order_of

    def order_of(self, record: ContainerRecord) -> PodOrder | None:
        """Return the order that applies to a container; None: it may run."""
        return strongest(
            order
            for order in (*self._cluster_orders, *self._file_orders)
            if order.concerns(record.pod_uid, record.namespace, record.pod)
        )

    def set_cluster_orders(self, orders: tuple[PodOrder, ...]) -> None:
        """Replace the GPUNode's orders."""
        self._cluster_orders = orders
        self._apply()

    def set_file_orders(self, orders: tuple[FileOrder, ...]) -> None:
        """Replace the file's orders."""
        self._file_orders = orders
        self._apply()

    def _apply(self) -> None:
        for turns in self._gpus.values():
            for lease in turns.leases.values():
                order = self.order_of(lease.record)
                if order != lease.order:
                    _log.info(
                        "order changed pod=%s/%s gpu=%s order=%s reason=%r",
                        lease.record.namespace,
                        lease.record.pod,
                        turns.gpu.uuid,
                        None if order is None else order.order,
                        "" if order is None else order.reason,
                    )
                turns.orders.set_order(lease, order)
