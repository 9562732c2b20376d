"""Tracks the containers of the node by the folders that the device plugin creates.

Level-triggered: a change of a folder only says where to look. All folders are rescanned every few seconds as
well, so a missed change costs only time. After a restart of the agent the folders show everything again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from laneway.api.container_record import ContainerRecord
from laneway.api.names import RECORD_NAME
from laneway.node_agent.clock import Clock
from laneway.node_agent.containers.inotify import Inotify
from laneway.node_agent.containers.record_file import (
    BadRecordError,
    UnreadableRecordError,
    is_same_container,
    read_record,
)
from laneway.node_agent.event_loop import EventLoop
from laneway.node_agent.rate_limited_log import RateLimitedLog

_log = logging.getLogger(__name__)
_KEY = re.compile(r"[0-9a-f]{16}")
_Signature = tuple[int, int, int]


class ContainerHandler(Protocol):
    """Handles added, updated and removed containers."""

    def container_added(self, record: ContainerRecord, folder: Path) -> None:
        """A container holds ids."""
        ...

    def container_updated(self, record: ContainerRecord) -> None:
        """A container's record has changed."""
        ...

    def container_is_connected(self, key: str) -> bool:
        """Return whether processes of the container are connected, so that it has not ended."""
        ...

    def ensure_container_socket(self, record: ContainerRecord, folder: Path) -> None:
        """Make sure that the container's socket exists."""
        ...

    def container_removed(self, key: str) -> None:
        """A container released its ids."""
        ...


@dataclass(slots=True)
class _Known:
    record: ContainerRecord
    missing_since_seconds: float | None = None


class ContainerRegistry:
    """Compares the folders with the last known containers."""

    RESCAN_SECONDS = 1.0
    BLIND_RESCAN_SECONDS = 0.2
    """The interval without inotify: the kernel limits root's instances for the whole machine, and others
    use them too."""

    WIPED_SECONDS = 10.0
    """If a folder disappears while its container's processes are connected, it was wiped: the plugin gets
    this long to restore it."""

    def __init__(
        self, folder: Path, gpus: Collection[str], listener: ContainerHandler, loop: EventLoop, clock: Clock
    ) -> None:
        """Watch the folder that holds the containers' folders.

        Raises:
            OSError: the folder cannot be created.
        """
        self._folder = folder
        self._gpus = gpus
        self._listener = listener
        self._loop = loop
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._seen: dict[str, _Signature] = {}
        self._limited_log = RateLimitedLog(_log, clock, max_kinds=1024)
        self._inotify = _open_inotify()
        if self._inotify is not None:
            loop.add_reader(self._inotify.descriptor, self._changed)
        self._rescan()

    def look_at_all(self) -> None:
        """Compare all folders with the known containers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._watch(self._folder)
        present = {entry.name for entry in self._folder.iterdir() if _KEY.fullmatch(entry.name)}
        for key in sorted(present | self._known.keys()):
            self._look_at(key)

    def close(self) -> None:
        """Stop watching."""
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.descriptor)
            self._inotify.close()

    def _rescan(self) -> None:
        pause_seconds = self.BLIND_RESCAN_SECONDS if self._inotify is None else self.RESCAN_SECONDS
        self._loop.call_at(self._clock.monotonic() + pause_seconds, self._rescan)
        self._limited_log.flush_suppressed()
        self.look_at_all()

    def _changed(self) -> None:
        keys = set()
        for folder, name in self._inotify.changes() if self._inotify is not None else ():
            if folder == self._folder and not name:
                self.look_at_all()
                return
            keys.add(name if folder == self._folder else folder.name)
        for key in sorted(keys):
            if _KEY.fullmatch(key):
                self._look_at(key)

    def _look_at(self, key: str) -> None:
        folder = self._folder / key
        path = folder / RECORD_NAME
        try:
            self._watch(folder)
            status = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            self._is_missing(key)
            return
        except OSError as error:
            # A folder that cannot be read still exists: its processes may run, and their memory counts.
            self._limited_log.warning(key, f"cannot read record path={path} error={error.strerror!r}")
            return
        known = self._known.get(key)
        if known is not None:
            known.missing_since_seconds = None
        signature = (status.st_ino, status.st_mtime_ns, status.st_size)
        if self._seen.get(key) == signature:
            if known is not None:
                self._listener.ensure_container_socket(known.record, folder)
            return
        try:
            record = read_record(path, self._gpus)
        except FileNotFoundError:
            return  # replaced just now; the next change or rescan finds it
        except BadRecordError as error:
            self._limited_log.warning(key, f"container record ignored error={str(error)!r}")
            if not isinstance(error, UnreadableRecordError):  # that one is tried again
                self._seen[key] = signature
            return
        self._seen[key] = signature
        self._take(record, folder)

    def _take(self, record: ContainerRecord, folder: Path) -> None:
        known = self._known.get(record.key)
        if known is not None and is_same_container(known.record, record):
            known.record = record
            self._listener.container_updated(record)
            self._listener.ensure_container_socket(record, folder)
            return
        if known is not None:
            self._listener.container_removed(record.key)
        self._known[record.key] = _Known(record)
        self._listener.container_added(record, folder)

    def _is_missing(self, key: str) -> None:
        self._seen.pop(key, None)
        known = self._known.get(key)
        if known is None:
            return
        now_seconds = self._clock.monotonic()
        if known.missing_since_seconds is None:
            known.missing_since_seconds = now_seconds
        wiped = self._listener.container_is_connected(key)
        if wiped and now_seconds - known.missing_since_seconds < self.WIPED_SECONDS:
            return
        del self._known[key]
        self._listener.container_removed(key)

    def _watch(self, folder: Path) -> None:
        """Watch a folder, if the kernel allows it. Raises OSError if the folder does not exist."""
        if self._inotify is None:
            folder.stat()
            return
        try:
            self._inotify.watch(folder)
        except (FileNotFoundError, NotADirectoryError):
            raise
        except OSError as error:
            _log.debug("cannot watch folder, relying on rescans folder=%s error=%s", folder, error)


def _open_inotify() -> Inotify | None:
    try:
        return Inotify()
    except OSError as error:
        _log.warning("no inotify instance, scanning the containers' folders every 0.2 s error=%r", str(error))
        return None
