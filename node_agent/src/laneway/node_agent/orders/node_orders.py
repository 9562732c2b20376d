"""All sources of a node's orders, started and stopped together."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.node_agent.clock import Clock
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.host_folders import HostFolders
from laneway.node_agent.orders.cluster_watch import ClusterOrdersWatch, SpecSource
from laneway.node_agent.orders.effective_orders import EffectiveOrders
from laneway.node_agent.orders.file_watch import OrdersFileWatch
from laneway.node_agent.turns.gpu_turns import GPUTurns


class NodeOrders:
    """Used on the loop's thread."""

    def __init__(
        self, gpus: Mapping[str, GPUTurns], folders: HostFolders, loop: EventLoop, clock: Clock
    ) -> None:
        self._gpus = gpus
        self._folders = folders
        self._loop = loop
        self._effective = EffectiveOrders(gpus)
        self._file = OrdersFileWatch(folders.orders, self._effective.set_file_orders, loop, clock)
        self._cluster: ClusterOrdersWatch | None = None

    def start(self, source: SpecSource | None) -> None:
        """Read the existing orders before any container is handled, and watch for changes.

        Args:
            source: the API server; None for a node without a cluster.
        """
        if source is not None:
            kept = self._folders.saved_orders
            self._cluster = ClusterOrdersWatch(source, kept, self._effective.set_cluster_orders, self._loop)
            self._cluster.start()
        self._file.start()

    def stop(self) -> None:
        """Stop watching."""
        self._file.stop()
        if self._cluster is not None:
            self._cluster.stop()

    def retry(self) -> None:
        """Retry steps that could not be done before; called now and then."""
        for turns in self._gpus.values():
            turns.orders.retry(turns.leases.values())
