"""inotify(7), as much of it as the agent needs: which names in which folders have changed."""

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
    """Watches folders. What it misses (its queue is bounded), a regular look at the folders finds."""

    def __init__(self) -> None:
        """Open it.

        Raises:
            OSError: the kernel allows no more instances.
        """
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = self._check(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self._folders: dict[int, Path] = {}

    def watch(self, folder: Path) -> None:
        """Watch a folder; watching it again does nothing, and a new folder of the same name is watched anew.

        Raises:
            OSError: it is no folder, or the kernel allows no more watches.
        """
        watch = self._check(self._libc.inotify_add_watch(self.descriptor, os.fsencode(folder), _MASK))
        self._folders[watch] = folder

    def changes(self) -> Iterator[tuple[Path, str]]:
        """Return changes since the last call as (folder, name in it); the name is empty for the folder itself.

        Of many, these are some: the descriptor stays readable, so that who makes changes all the time keeps nobody waiting.
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
