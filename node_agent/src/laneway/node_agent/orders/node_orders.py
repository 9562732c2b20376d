"""All sources of orders of a node, started and stopped together."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.orders.cluster_watch import ClusterWatch, SpecSource
from laneway.node_agent.orders.desk import OrderDesk
from laneway.node_agent.orders.file_watch import OrdersFileWatch
from laneway.node_agent.turns.gpu_turns import GPUTurns


class NodeOrders:
    """Belongs to the agent, and to its loop's thread."""

    def __init__(
        self, gpus: Mapping[str, GPUTurns], folders: HostFolders, loop: EventLoop, clock: Clock
    ) -> None:
        self._gpus = gpus
        self._folders = folders
        self._loop = loop
        self._desk = OrderDesk(gpus)
        self._file = OrdersFileWatch(folders.orders, self._desk.take_from_file, loop, clock)
        self._cluster: ClusterWatch | None = None

    def start(self, source: SpecSource | None) -> None:
        """Take the orders that are there, before any container is looked at; and follow them from now on.

        Args:
            source: the API server; None for a node that is on its own.
        """
        if source is not None:
            kept = self._folders.kept_orders
            self._cluster = ClusterWatch(source, kept, self._desk.take_from_cluster, self._loop)
            self._cluster.start()
        self._file.start()

    def stop(self) -> None:
        """Follow them no longer."""
        self._file.stop()
        if self._cluster is not None:
            self._cluster.stop()

    def look_after(self) -> None:
        """Go on with what could not be done when it was ordered; called now and then."""
        for turns in self._gpus.values():
            turns.orders.look_after(turns.holds.values())
