"""Watches the orders file. An invalid file is logged once and the last valid orders stay. No file means no
orders."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from laneway.node_agent.clock import Clock
from laneway.node_agent.containers.inotify import Inotify
from laneway.node_agent.event_loop import EventLoop, Timer
from laneway.node_agent.orders.orders_file import (
    BadOrdersError,
    FileOrder,
    UnreadableOrdersError,
    read_orders,
)

_log = logging.getLogger(__name__)
_RESCAN_SECONDS = 1.0
"""The longest delay of a change that inotify missed: no instance may be left, or the folder was replaced."""


class OrdersFileWatch:
    """Passes the orders of a file to a callback, at the start and on every change. Used on the loop's
    thread."""

    def __init__(
        self, path: Path, on_orders: Callable[[tuple[FileOrder, ...]], None], loop: EventLoop, clock: Clock
    ) -> None:
        self._path = path
        self._on_orders = on_orders
        self._loop = loop
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._problem = ""
        """Why the file could not be read the last time; empty if it could."""
        self._timer: Timer | None = None
        self._inotify: Inotify | None = None

    def start(self) -> None:
        """Read the file and start watching it."""
        try:
            self._inotify = Inotify()
        except OSError as error:
            _log.warning("no inotify instance, polling every second path=%s error=%r", self._path, str(error))
        else:
            self._loop.add_reader(self._inotify.descriptor, self._changed)
        self._rescan()

    def stop(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.descriptor)
            self._inotify.close()

    def read_if_changed(self) -> None:
        """Read the file if it changed since the last reading."""
        try:
            status = self._path.stat()
            signature = (status.st_ino, status.st_mtime_ns, status.st_size)
        except OSError:
            signature = None
        if signature == self._seen:
            return
        try:
            orders = read_orders(self._path)
        except UnreadableOrdersError as error:
            if str(error) != self._problem:
                _log.error(
                    "orders file not read, keeping the previous orders, will retry error=%r", str(error)
                )
            self._problem = str(error)
            return
        except BadOrdersError as error:
            self._seen, self._problem = signature, ""
            _log.error("orders file ignored, keeping the previous orders error=%r", str(error))
            return
        self._seen, self._problem = signature, ""
        self._on_orders(orders)

    def _rescan(self) -> None:
        self._timer = self._loop.call_at(self._clock.monotonic() + _RESCAN_SECONDS, self._rescan)
        if self._inotify is not None:
            try:
                self._inotify.watch(self._path.parent)
            except OSError as error:
                _log.debug("cannot watch folder folder=%s error=%s", self._path.parent, error)
        self.read_if_changed()

    def _changed(self) -> None:
        changes = list(self._inotify.changes()) if self._inotify is not None else []
        if any(name in ("", self._path.name) for _, name in changes):
            self.read_if_changed()
