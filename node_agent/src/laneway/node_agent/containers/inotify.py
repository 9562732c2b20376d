"""A minimal binding of inotify(7): which names in which folders have changed."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

_IN_CLOSE_WRITE, _IN_MOVED_FROM, _IN_MOVED_TO = 0x8, 0x40, 0x80
_IN_CREATE, _IN_DELETE, _IN_DELETE_SELF, _IN_MOVE_SELF = 0x100, 0x200, 0x400, 0x800
_IN_IGNORED, _IN_ONLYDIR = 0x8000, 0x1000000
_MASK = (
    _IN_CLOSE_WRITE
    | _IN_MOVED_FROM
    | _IN_MOVED_TO
    | _IN_CREATE
    | _IN_DELETE
    | _IN_DELETE_SELF
    | _IN_MOVE_SELF
    | _IN_ONLYDIR
)
_EVENT = struct.Struct("iIII")
_READ_BYTES = 4096


class Inotify:
    """Watches folders. Its queue is bounded; a regular rescan finds what it misses."""

    def __init__(self) -> None:
        """Open it.

        Raises:
            OSError: the kernel allows no more instances.
        """
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._check(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._folders: dict[int, Path] = {}

    def watch(self, folder: Path) -> None:
        """Watch a folder. Watching it again does nothing; a new folder of the same name is watched again.

        Raises:
            OSError: it is not a folder, or the kernel allows no more watches.
        """
        watch = self._check(self._libc.inotify_add_watch(self.descriptor, os.fsencode(folder), _MASK))
        self._folders[watch] = folder

    def changes(self) -> Iterator[tuple[Path, str]]:
        """Yield changes as (folder, name in it); the name is empty for the folder itself.

        At most one buffer is read. The descriptor stays readable, so constant changes do not keep others
        waiting.
        """
        try:
            data = os.read(self.descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            watch, mask, _, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size
            name = data[offset : offset + length].rstrip(b"\0")
            offset += length
            folder = self._folders.pop(watch, None) if mask & _IN_IGNORED else self._folders.get(watch)
            if folder is not None:
                yield folder, os.fsdecode(name)

    def close(self) -> None:
        """Close it."""
        os.close(self.descriptor)

    @staticmethod
    def _check(result: int) -> int:
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return result
