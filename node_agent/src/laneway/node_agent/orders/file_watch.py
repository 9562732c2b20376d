"""Follows the orders' file. A bad file is named in the log once, and the last good orders stay; no file, no orders."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from laneway.node_agent.clock import Clock
from laneway.node_agent.containers.inotify import Inotify
from laneway.node_agent.event_loop import EventLoop, Timer
from laneway.node_agent.orders.orders_file import BadOrdersError, FileOrder, read_orders

_log = logging.getLogger(__name__)
_RESCAN_SECONDS = 1.0
"""A change that inotify missed is found so soon: it may be out of instances, or the folder replaced."""


class OrdersFileWatch:
    """Tells a listener the orders of a file, now and whenever it changes. Lives on the loop's thread."""

    def __init__(
        self, path: Path, listener: Callable[[tuple[FileOrder, ...]], None], loop: EventLoop, clock: Clock
    ) -> None:
        self._path = path
        self._listener = listener
        self._loop = loop
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._timer: Timer | None = None
        self._inotify: Inotify | None = None

    def start(self) -> None:
        """Look now, and watch from now on."""
        try:
            self._inotify = Inotify()
        except OSError as error:
            _log.warning("no inotify instance (%s): %s is looked at every second", error, self._path)
        else:
            self._loop.add_reader(self._inotify.descriptor, self._changed)
        self._rescan()

    def stop(self) -> None:
        """Watch no longer."""
        if self._timer is not None:
            self._timer.cancel()
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.descriptor)
            self._inotify.close()

    def look(self) -> None:
        """Read the file if it is not the one that was read last."""
        try:
            status = self._path.stat()
            signature = (status.st_ino, status.st_mtime_ns, status.st_size)
        except OSError:
            signature = None
        if signature == self._seen:
            return
        self._seen = signature
        try:
            orders = read_orders(self._path)
        except BadOrdersError as error:
            _log.error("ignored, the orders before it stay: %s", error)
            return
        self._listener(orders)

    def _rescan(self) -> None:
        self._timer = self._loop.call_at(self._clock.monotonic() + _RESCAN_SECONDS, self._rescan)
        if self._inotify is not None:
            try:
                self._inotify.watch(self._path.parent)
            except OSError as error:
                _log.debug("%s is not watched: %s", self._path.parent, error)
        self.look()

    def _changed(self) -> None:
        changes = list(self._inotify.changes()) if self._inotify is not None else []
        if any(name in ("", self._path.name) for _, name in changes):
            self.look()
