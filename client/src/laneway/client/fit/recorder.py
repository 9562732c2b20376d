"""Learns the liveness of what autograd keeps, in an iteration in which all of it leaves for the host at once.

Events cut the iteration into segments (`laneway.client.fit.liveness`). When a storage's last other owner lets go of it is seen by a weak reference to it:
nothing of ours holds it then.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any, Optional

from laneway.client.fit.liveness import Liveness, ModuleCost, SavedStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.fit.custody import Saved
    from laneway.client.fit.module_watch import Frame, ModuleWatch


class _Row:
    """A storage of the table, as far as it is known."""

    def __init__(self, size: int, place: int, began_seconds: float) -> None:
        self.size = size
        self.began_seconds = began_seconds
        self.first = self.last = place
        self.gone_at: Optional[int] = None
        self.needed_at: Optional[int] = None
        self.hidden_seconds = 0.0
        self.watched: list[weakref.ref[Any]] = []


class LivenessRecorder:
    """Of one iteration."""

    watch: Optional[ModuleWatch] = None
    """What measures the modules meanwhile, if they are wanted."""

    def __init__(self, look: Callable[[], tuple[int, int]]) -> None:
        """Begins with the iteration.

        Args:
            look: reads the meter: (bytes held now, the most held since the last look).
        """
        self._look = look
        self._crests: list[int] = []
        self._rows: list[_Row] = []
        self._highest = 0
        self.held_bytes = look()[0]
        """When it began."""

    def look(self) -> tuple[int, int]:
        """Reads the meter within a segment: (bytes held now, the most held since the last look)."""
        held, crest = self._look()
        self._highest = max(self._highest, crest)
        return held, crest

    def saved(self, saved: Saved, place: int) -> None:
        """Autograd keeps a storage, perhaps not for the first time."""
        if saved.number < len(self._rows):
            self._rows[saved.number].last = place
            return
        row = _Row(saved.size, place, time.perf_counter())
        self._rows.append(row)
        self._cut()
        storage = saved.source()
        row.watched = [
            weakref.ref(storage, lambda _: self._gone(row)),
            weakref.ref(saved, lambda _: self._dropped(row)),
        ]

    def read(self, saved: Saved) -> None:
        """The backward pass is about to read it."""
        row = self._rows[saved.number]
        row.needed_at = len(self._crests)
        row.hidden_seconds = time.perf_counter() - row.began_seconds
        self._cut()

    def finish(self) -> Liveness:
        """The iteration has ended."""
        self._cut()
        last = len(self._crests) - 1
        storages = []
        for row in self._rows:
            row.watched.clear()
            needed_at = last if row.needed_at is None else min(row.needed_at, last)
            gone_at = needed_at + 1 if row.gone_at is None else row.gone_at
            storages.append(SavedStorage(row.size, gone_at, needed_at, row.hidden_seconds))
        frames = self.watch.finish() if self.watch is not None else []
        modules = tuple(self._module(frame) for frame in frames)
        return Liveness(tuple(self._crests), tuple(storages), modules)

    def _module(self, frame: Frame) -> ModuleCost:
        inside = tuple(
            number
            for number, row in enumerate(self._rows)
            if frame.first_place <= row.first and row.last < frame.last_place and number not in frame.inputs
        )
        return ModuleCost(
            frame.name, frame.forward_seconds, frame.working_bytes, inside, frame.within, frame.kept_bytes
        )

    def _cut(self) -> None:
        _, crest = self.look()
        self._crests.append(self._highest)
        self._highest = 0
        if self.watch is not None:
            self.watch.note(crest)

    def _gone(self, row: _Row) -> None:
        if row.gone_at is None:
            row.gone_at = len(self._crests)

    def _dropped(self, row: _Row) -> None:
        if row.needed_at is None:
            row.needed_at = len(self._crests)
