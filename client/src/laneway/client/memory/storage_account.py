"""Accounts for the live storages: their bytes now, the peak, and a limit.

A storage's Python object lives as long as the storage, even if only autograd's graph holds it (PyTorch ≥
2.1). So a weak reference tells when the memory is freed. A storage can die in any thread: frees are queued
(`deque.append` is atomic) and applied by the thread that owns the account.

There is one exception. Python's cycle collector calls weak references to an object in a cycle although the
storage, and with it the object, lives on (`torch.save` leaves such cycles). So a storage in use that is not
recorded has to be recorded again (`is_recorded`).
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any


class _Entry(weakref.ref):  # type: ignore[type-arg]
    """A live storage: its address and recorded size."""

    __slots__ = ("key", "size")
    key: int
    size: int


class StorageAccount:
    """Records storages. One thread at a time calls `record` and `apply_frees`; storages may die in any
    thread."""

    def __init__(self) -> None:
        self.held = 0
        """Bytes of the live storages, as of the last `record` or `apply_frees`."""
        self.highest = 0
        """The most held since `reset_peak`."""
        self.recent_peak = 0
        """The most held since `sample`."""
        self.limit = 1 << 62
        """How many bytes may be held."""
        self._entries: dict[int, _Entry] = {}
        self._freed: deque[_Entry] = deque()

    def record(self, storage: Any) -> int:
        """Records a storage (a `torch.UntypedStorage`), or the new size of a recorded one.

        Returns:
            0, or the number of bytes by which it would grow beyond the limit; then nothing is recorded.
        """
        size: int = storage.nbytes()
        self.apply_frees()
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
        if self.held > self.recent_peak:
            self.recent_peak = self.held
            if self.held > self.highest:  # noqa: PLR1730 - a call of max() costs more
                self.highest = self.held
        return 0

    def is_recorded(self, storage: Any) -> bool:
        """Returns whether this storage is recorded, and not an earlier one at the same address."""
        entry = self._entries.get(storage._cdata)
        return entry is not None and entry() is storage

    def apply_frees(self) -> int:
        """Applies the queued frees; returns the bytes held."""
        freed = self._freed
        while freed:
            entry = freed.popleft()
            self.held -= entry.size
            if self._entries.get(entry.key) is entry:
                del self._entries[entry.key]
        return self.held

    def reset_peak(self) -> None:
        """Resets `highest` to what is held now."""
        self.highest = self.recent_peak = self.apply_frees()

    def sample(self) -> tuple[int, int]:
        """Returns (bytes held, most held since the last sample)."""
        recent_peak = self.recent_peak
        self.recent_peak = self.apply_frees()
        return self.held, recent_peak
