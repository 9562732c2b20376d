"""Records the liveness of saved storages in an iteration in which all of them are offloaded at once.

Events cut the iteration into segments (`laneway.client.fit.liveness`). A weak reference shows when a
storage's last other owner releases it, because the client holds no reference then.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any, Optional

from laneway.client.fit.liveness import Liveness, ModuleCost, StorageLifetime

if TYPE_CHECKING:
    from collections.abc import Callable

    from laneway.client.fit.module_profiler import ModuleCall, ModuleProfiler
    from laneway.client.fit.saved_activations import SavedStorage


class _Row:
    """A storage of the table, as far as known."""

    def __init__(self, size: int, position: int, began_seconds: float) -> None:
        self.size = size
        self.began_seconds = began_seconds
        self.first = self.last = position
        self.released_at: Optional[int] = None
        self.needed_at: Optional[int] = None
        self.hidden_seconds = 0.0
        self.references: list[weakref.ref[Any]] = []


class LivenessRecorder:
    """Records one iteration."""

    profiler: Optional[ModuleProfiler] = None
    """Measures the modules at the same time, if wanted."""

    def __init__(self, sample: Callable[[], tuple[int, int]]) -> None:
        """Begins with the iteration.

        Args:
            sample: reads the meter: (bytes held now, most held since the last sample).
        """
        self._sample = sample
        self._peaks: list[int] = []
        self._rows: list[_Row] = []
        self._highest = 0
        self.held_bytes = sample()[0]
        """What was held at its begin."""

    def sample(self) -> tuple[int, int]:
        """Reads the meter within a segment: (bytes held now, most held since the last sample)."""
        held, recent_peak = self._sample()
        self._highest = max(self._highest, recent_peak)
        return held, recent_peak

    def saved(self, saved: SavedStorage, position: int) -> None:
        """Records that autograd saves a storage, perhaps not for the first time."""
        if saved.number < len(self._rows):
            self._rows[saved.number].last = position
            return
        row = _Row(saved.size, position, time.perf_counter())
        self._rows.append(row)
        self._end_segment()
        storage = saved.source()
        row.references = [
            weakref.ref(storage, lambda _: self._on_released(row)),
            weakref.ref(saved, lambda _: self._on_dropped(row)),
        ]

    def read(self, saved: SavedStorage) -> None:
        """Records that the backward pass is about to read a storage."""
        row = self._rows[saved.number]
        row.needed_at = len(self._peaks)
        row.hidden_seconds = time.perf_counter() - row.began_seconds
        self._end_segment()

    def finish(self) -> Liveness:
        """Ends the recording; returns the table."""
        self._end_segment()
        last = len(self._peaks) - 1
        storages = []
        for row in self._rows:
            row.references.clear()
            needed_at = last if row.needed_at is None else min(row.needed_at, last)
            released_at = needed_at + 1 if row.released_at is None else row.released_at
            storages.append(StorageLifetime(row.size, released_at, needed_at, row.hidden_seconds))
        calls = self.profiler.finish() if self.profiler is not None else []
        modules = tuple(self._module(call) for call in calls)
        return Liveness(tuple(self._peaks), tuple(storages), modules)

    def _module(self, call: ModuleCall) -> ModuleCost:
        inside = tuple(
            number
            for number, row in enumerate(self._rows)
            if call.first_position <= row.first
            and row.last < call.last_position
            and number not in call.inputs
        )
        return ModuleCost(
            call.name, call.forward_seconds, call.working_bytes, inside, call.enclosing, call.kept_bytes
        )

    def _end_segment(self) -> None:
        _, recent_peak = self.sample()
        self._peaks.append(self._highest)
        self._highest = 0
        if self.profiler is not None:
            self.profiler.update_peak(recent_peak)

    def _on_released(self, row: _Row) -> None:
        if row.released_at is None:
            row.released_at = len(self._peaks)

    def _on_dropped(self, row: _Row) -> None:
        if row.needed_at is None:
            row.needed_at = len(self._peaks)
