"""An account of the storages that are alive: their bytes now, the most so far, and a limit.

A storage's Python object lives as long as the storage itself, also when only autograd's graph holds it (PyTorch ≥ 2.1), so a weak
reference to it tells when its memory goes. Frees are queued (`deque.append` is atomic) and booked by the thread that owns the
account, because a storage can die in any thread.

With one exception: Python's collector of cycles calls the weak references to such an object in a cycle although the storage, and with it
the object, lives on (`torch.save` leaves such cycles). So what is used has to be booked again, if it is not (`is_booked`).
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any


class _Entry(weakref.ref):  # type: ignore[type-arg]
    """A live storage: its address and what it was booked with."""

    __slots__ = ("key", "size")
    key: int
    size: int


class StorageAccount:
    """Books storages. `book` and `settle` are called in one thread at a time; storages may die in any."""

    def __init__(self) -> None:
        self.held = 0
        """Bytes of the storages that are alive, as of the last `book` or `settle`."""
        self.highest = 0
        """The most held since `restart`."""
        self.crest = 0
        """The most held since `look`."""
        self.limit = 1 << 62
        """Bytes that may be held."""
        self._entries: dict[int, _Entry] = {}
        self._freed: deque[_Entry] = deque()

    def book(self, storage: Any) -> int:
        """Books a storage (a `torch.UntypedStorage`), or its new size if it is booked already.

        Returns:
            0, or the bytes by which it grows, when these are beyond the limit; then nothing is booked.
        """
        size: int = storage.nbytes()
        self.settle()
        key = storage._cdata
        entry = self._entries.get(key)
        before = entry.size if entry is not None else 0
        if size == before:
            return 0
        if size > before and self.held - before + size > self.limit:
            return size - before
        if entry is None:
            entry = _Entry(storage, self._freed.append)
            entry.key = key
            self._entries[key] = entry
        entry.size = size
        self.held += size - before
        if self.held > self.crest:
            self.crest = self.held
            if self.held > self.highest:  # noqa: PLR1730 - a call of max() costs more
                self.highest = self.held
        return 0

    def is_booked(self, storage: Any) -> bool:
        """Whether this storage is, and not one that was at its address before."""
        entry = self._entries.get(storage._cdata)
        return entry is not None and entry() is storage

    def settle(self) -> int:
        """Books the frees that have come meanwhile; returns the bytes held."""
        freed = self._freed
        while freed:
            entry = freed.popleft()
            self.held -= entry.size
            if self._entries.get(entry.key) is entry:
                del self._entries[entry.key]
        return self.held

    def restart(self) -> None:
        """From now on `highest` counts anew."""
        self.highest = self.crest = self.settle()

    def look(self) -> tuple[int, int]:
        """(bytes held, the most held since the last look)."""
        crest = self.crest
        self.crest = self.settle()
        return self.held, crest
