"""Watches the orders in the spec of the node's own GPUNode on its own thread: list, watch, repeat.

While the API server is unreachable, the last orders stay in force. They are saved in a file, so they also
survive a restart of the agent.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from laneway.api.orders import PodOrder, understood
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.orders.orders_file import BadOrdersError, FileOrder, read_orders, write_orders
from laneway.node_agent.report.gpu_node_writer import ReadError

_log = logging.getLogger(__name__)
_MAX_BACKOFF_SECONDS = 30.0


class SpecSource(Protocol):
    """Reads the spec of the node's GPUNode."""

    def specs(self) -> Iterator[dict[str, Any]]:
        """Yield the current spec (empty if there is no object), and again whenever the object changes.

        The iterator ends now and then; the next call continues.

        Raises:
            ReadError: the API server could not be read.
        """
        ...


class ClusterOrdersWatch:
    """Passes the GPUNode's orders to a callback, on the loop's thread."""

    def __init__(
        self,
        source: SpecSource,
        saved: Path,
        on_orders: Callable[[tuple[PodOrder, ...]], None],
        loop: EventLoop,
    ) -> None:
        """Prepare; watching begins with :meth:`start`.

        Args:
            source: the API server.
            saved: the file in which the last orders survive a restart.
            on_orders: receives the orders.
            loop: calls ``on_orders`` on its thread.
        """
        self._source = source
        self._saved = saved
        self._on_orders = on_orders
        self._loop = loop
        self._stopped = threading.Event()
        self._last: tuple[PodOrder, ...] | None = None
        self._last_spec: object = None
        self._thread = threading.Thread(target=self._run, name="orders-watch", daemon=True)

    def start(self) -> None:
        """Apply the saved orders of an earlier agent process and start watching. Called on the loop's
        thread."""
        try:
            saved = read_orders(self._saved)
        except BadOrdersError as error:
            _log.error("saved orders ignored until the API server is read error=%r", str(error))
        else:
            self._last = _pod_orders(saved)
            self._on_orders(self._last)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching. A request in progress is not waited for."""
        self._stopped.set()

    def apply_spec(self, spec: dict[str, Any]) -> None:
        """Pass on a spec's orders if they changed. Invalid orders are logged once, and the previous ones of
        their pods stay."""
        if spec == self._last_spec:
            return
        self._last_spec = spec
        orders, others = understood(spec.get("orders") or ())
        previous = {order.pod_uid: order for order in self._last or ()}
        for each, problem in others:
            _log.error("invalid order in GPUNode, the pod's previous one stays error=%r", problem)
            if isinstance(each, dict) and each.get("podUID") in previous:
                orders = (*orders, previous[each["podUID"]])
        if orders == self._last:
            return
        try:
            write_orders(self._saved, [FileOrder(**order.model_dump(by_alias=True)) for order in orders])
        except OSError as error:
            _log.error("cannot save orders path=%s error=%r", self._saved, str(error))
        self._last = orders
        self._loop.post(lambda: self._on_orders(orders))

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            try:
                for spec in self._source.specs():
                    failures = 0
                    if self._stopped.is_set():
                        return
                    self.apply_spec(spec)
            except Exception as error:
                failures += 1
                pause_seconds = min(_MAX_BACKOFF_SECONDS, 2.0 ** min(failures - 1, 10)) * random.uniform(
                    0.75, 1.25
                )
                if isinstance(error, ReadError):
                    _log.warning(
                        "cannot read orders, keeping the previous ones try=%d retry_seconds=%.0f error=%r",
                        failures,
                        pause_seconds,
                        str(error),
                    )
                else:
                    _log.exception("watching the GPUNode's orders failed")
                self._stopped.wait(pause_seconds)


def _pod_orders(orders: tuple[FileOrder, ...]) -> tuple[PodOrder, ...]:
    return tuple(
        PodOrder(podUID=order.pod_uid, order=order.order, reason=order.reason)
        for order in orders
        if order.pod_uid
    )
