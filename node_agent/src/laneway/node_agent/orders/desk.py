"""Where all orders of a node come together: those of the cluster and those of the node's own file. The stronger one counts."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from laneway.api.container_record import ContainerRecord
from laneway.api.orders import PodOrder, strongest
from laneway.node_agent.orders.orders_file import FileOrder
from laneway.node_agent.turns.gpu_turns import GPUTurns

_log = logging.getLogger(__name__)


class OrderDesk:
    """Keeps the last word of each source, and passes on what follows from them. Lives on the loop's thread."""

    def __init__(self, gpus: Mapping[str, GPUTurns]) -> None:
        self._gpus = gpus
        self._of_the_cluster: tuple[PodOrder, ...] = ()
        self._of_the_file: tuple[PodOrder, ...] = ()
        for turns in gpus.values():
            turns.order_of = self.order_of

    def order_of(self, record: ContainerRecord) -> PodOrder | None:
        """Return the order that counts for a container; None: it is to run."""
        return strongest(
            order
            for order in (*self._of_the_cluster, *self._of_the_file)
            if order.concerns(record.pod_uid, record.namespace, record.pod)
        )

    def take_from_cluster(self, orders: tuple[PodOrder, ...]) -> None:
        """The GPUNode's orders are these now."""
        self._of_the_cluster = orders
        self._pass_on()

    def take_from_file(self, orders: tuple[FileOrder, ...]) -> None:
        """The file's orders are these now."""
        self._of_the_file = orders
        self._pass_on()

    def _pass_on(self) -> None:
        for turns in self._gpus.values():
            for hold in turns.holds.values():
                order = self.order_of(hold.record)
                if order != hold.order:
                    who = f"{hold.record.namespace}/{hold.record.pod}"
                    said = (
                        "may run" if order is None else f"{order.order}: {order.reason or 'no reason given'}"
                    )
                    _log.info("order to %s on GPU %s: %s", who, turns.gpu.uuid, said)
                turns.orders.take(hold, order)
