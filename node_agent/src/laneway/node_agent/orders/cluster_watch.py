"""Follows the orders in the spec of the node's own GPUNode, from a thread of its own: list, watch, and again.

While the API server is away the last orders stay. They are kept in a file, too, so that they stay over a restart of the agent meanwhile.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from laneway.api.gpu_node import GPUNodeSpec
from laneway.api.orders import PodOrder
from laneway.api.records import explain
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.orders.orders_file import BadOrdersError, FileOrder, read_orders, write_orders
from laneway.node_agent.report.writing import ReadError
from pydantic import ValidationError

_log = logging.getLogger(__name__)
_MOST_BACKOFF_SECONDS = 30.0


class SpecSource(Protocol):
    """Where the spec of the node's GPUNode is read."""

    def specs(self) -> Iterator[dict[str, Any]]:
        """Yield the spec as it is (empty where there is no object), and again whenever the object changes.

        Ends now and then; the next call goes on.

        Raises:
            ReadError: the API server could not be read.
        """
        ...


class ClusterWatch:
    """Tells a listener, on the loop's thread, the orders of the GPUNode."""

    def __init__(
        self,
        source: SpecSource,
        kept: Path,
        listener: Callable[[tuple[PodOrder, ...]], None],
        loop: EventLoop,
    ) -> None:
        """Begin to watch once :meth:`start` is called.

        Args:
            source: the API server.
            kept: the file in which the last orders outlive the agent.
            listener: who wants to know.
            loop: whose thread is the listener's.
        """
        self._source = source
        self._kept = kept
        self._listener = listener
        self._loop = loop
        self._stopped = threading.Event()
        self._last: tuple[PodOrder, ...] | None = None
        self._last_spec: object = None
        self._thread = threading.Thread(target=self._run, name="orders-watch", daemon=True)

    def start(self) -> None:
        """Take the orders that an agent before this one was given last, and watch from now on. Called on the loop's thread."""
        try:
            kept = read_orders(self._kept)
        except BadOrdersError as error:
            _log.error("%s; it is written anew once the API server has been asked", error)
        else:
            self._last = _plain(kept)
            self._listener(self._last)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer; a request that is under way is not waited for."""
        self._stopped.set()

    def take(self, spec: dict[str, Any]) -> None:
        """Pass on the orders of a spec, if they are others than before. A bad one is told once; the orders before it stay."""
        if spec == self._last_spec:
            return
        self._last_spec = spec
        try:
            orders = GPUNodeSpec.model_validate(spec).orders
        except ValidationError as error:
            _log.error("the GPUNode's orders are ignored, those before stay: %s", explain(error, "spec"))
            return
        if orders == self._last:
            return
        try:
            write_orders(self._kept, [FileOrder(**order.model_dump(by_alias=True)) for order in orders])
        except OSError as error:
            _log.error("%s cannot be written, orders will not outlive the agent: %s", self._kept, error)
        self._last = orders
        self._loop.post(lambda: self._listener(orders))

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                for spec in self._source.specs():
                    failures = 0
                    if self._stopped.is_set():
                        return
                    self.take(spec)
            except Exception as error:
                failures += 1
                pause_seconds = min(_MOST_BACKOFF_SECONDS, 2.0 ** min(failures - 1, 10)) * random.uniform(
                    0.75, 1.25
                )
                if isinstance(error, ReadError):
                    text = "orders cannot be read, the last ones stay (try %d, next in %.0f s): %s"
                    _log.warning(text, failures, pause_seconds, error)
                else:
                    _log.exception("following the GPUNode's orders failed")
                self._stopped.wait(pause_seconds)


def _plain(orders: tuple[FileOrder, ...]) -> tuple[PodOrder, ...]:
    return tuple(
        PodOrder(podUID=order.pod_uid, order=order.order, reason=order.reason)
        for order in orders
        if order.pod_uid
    )
