"""Chooses what to keep, offload and recompute, so that the iteration's peak stays within a budget.

After SuperNeurons (PPoPP'18, sections 3.2 to 3.4): liveness first, then the host as a second pool with
prefetching, then recomputation where that is cheaper. There the unit is a layer, chosen by type; here it is a
storage or module, chosen by measurements.

The planner starts with everything kept. It lowers the highest segment by whatever frees a byte there in the
least time, until all segments are within the budget. Then it undoes what turned out to be unnecessary, the
most expensive first. Memory that is free at the end is used for prefetching.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Optional, Union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laneway.client.fit.liveness import Liveness, Rates

LOOKAHEAD: Final = 3
"""How many reads ahead a storage is prefetched at most: enough time for the copy, at little memory."""
LAST_RESORT_WEIGHT: Final = 1e6
"""The weight of a technique's time if it is only allowed where the others do not suffice."""


class Technique(Enum):
    """What may be done."""

    OFFLOAD = "Offload"
    RECOMPUTE = "Recompute"
    """Offloads only what recomputing cannot free."""
    BOTH = "Auto"


@dataclass(frozen=True)
class Plan:
    """What to do with each storage of a table, by index."""

    offloaded: frozenset[int]
    """Storages on the host from when they are saved until they are needed."""
    recomputed: frozenset[int]
    """Modules whose storages are not kept."""
    prefetch_after: Mapping[int, tuple[int, ...]]
    """The copies to start when the backward pass first reads a storage. Other offloaded storages come back
    when they are read."""
    peak_bytes: int
    """The most held, according to the table."""
    extra_seconds: float
    """The time added to the iteration, according to the rates."""


def plan(
    liveness: Liveness,
    budget_bytes: int,
    rates: Rates,
    technique: Technique = Technique.BOTH,
    lookahead: int = LOOKAHEAD,
) -> Plan:
    """Makes the plan. If nothing fits the budget, returns the closest plan; `peak_bytes` tells.

    Args:
        liveness: the table.
        budget_bytes: what may be held, including persistent memory.
        rates: the cost of copying.
        technique: what may be done.
        lookahead: how many reads ahead a storage is prefetched at most.
    """
    prices = [rates.move_seconds(storage) for storage in liveness.storages]
    draft = _reduce_peak(liveness, budget_bytes, prices, technique)
    if draft.peak_bytes > budget_bytes and draft.recomputed:
        # Recomputing needs memory of its own where offloading alone might fit.
        moved = _reduce_peak(liveness, budget_bytes, prices, Technique.OFFLOAD)
        if moved.peak_bytes < draft.peak_bytes:
            draft = moved
    _undo_unnecessary(draft, max(budget_bytes, draft.peak_bytes), prices)
    prefetch_after = _prefetch(draft, liveness, max(budget_bytes, draft.peak_bytes), lookahead)
    offloaded = draft.offloaded - draft.covered
    seconds = sum(prices[index] for index in offloaded)
    seconds += sum(liveness.modules[index].forward_seconds for index in draft.recomputed)
    return Plan(frozenset(offloaded), frozenset(draft.recomputed), prefetch_after, draft.peak_bytes, seconds)


@dataclass
class _Draft:
    """A choice in progress, and the most held in each segment under it."""

    liveness: Liveness
    levels: list[int]
    offloaded: set[int] = field(default_factory=set)
    """Storages that are not kept: offloaded, or of a recomputed module."""
    recomputed: set[int] = field(default_factory=set)

    @property
    def peak_bytes(self) -> int:
        return max(self.levels)

    @property
    def covered(self) -> set[int]:
        """Storages that recomputed modules bring back."""
        return {index for module in self.recomputed for index in self.liveness.modules[module].storages}

    def add(self, first: int, last: int, size_bytes: int) -> None:
        """Adds bytes to the segments from first to last."""
        levels = self.levels
        for segment in range(first, last + 1):
            levels[segment] += size_bytes

    def shift(self, index: int, sign: int) -> None:
        """Adds (1) or removes (-1) a kept storage."""
        storage = self.liveness.storages[index]
        self.add(storage.released_at, storage.needed_at, sign * storage.size_bytes)

    def offload(self, index: int) -> None:
        self.offloaded.add(index)
        self.shift(index, -1)

    def keep(self, index: int) -> None:
        self.offloaded.discard(index)
        self.shift(index, 1)

    def recompute(self, index: int, sign: int = 1) -> None:
        """Recomputes a module (1), or no longer (-1); its storages are then offloaded."""
        for first, last, size_bytes in rematerialized(self.liveness, index):
            self.add(first, last, sign * size_bytes)
        if sign < 0:
            self.recomputed.discard(index)
            return
        self.recomputed.add(index)
        for storage in self.liveness.modules[index].storages:
            if storage not in self.offloaded:
                self.offload(storage)


def rematerialized(liveness: Liveness, index: int) -> Iterator[tuple[int, int, int]]:
    """Yields what recomputing a module holds: (first segment, last segment, bytes)."""
    module = liveness.modules[index]
    kept_from = min(liveness.storages[storage].released_at for storage in module.storages)
    first = min(liveness.storages[storage].needed_at for storage in module.storages) + 1
    yield kept_from, first - 1, module.kept_bytes
    if first < len(liveness.peaks_bytes):
        yield first, first, module.working_bytes
    for each in module.storages:
        storage = liveness.storages[each]
        yield first, storage.needed_at, storage.size_bytes


def _reduce_peak(liveness: Liveness, budget_bytes: int, prices: list[float], technique: Technique) -> _Draft:
    """Lowers the peak from everything kept to the budget, or as close to it as possible."""
    draft = _Draft(liveness, list(liveness.peaks_bytes))
    for index in range(len(liveness.storages)):
        draft.shift(index, 1)
    weight = LAST_RESORT_WEIGHT if technique is Technique.RECOMPUTE else 1.0
    modules = (
        [] if technique is Technique.OFFLOAD else [i for i, m in enumerate(liveness.modules) if m.storages]
    )
    while draft.peak_bytes > budget_bytes:
        segment = draft.levels.index(draft.peak_bytes)
        storage = _best_storage(draft, segment, prices)
        module = _best_module(draft, segment, prices, modules)
        if module is not None and (storage is None or module[0] < weight * storage[0]):
            draft.recompute(module[1])
        elif storage is not None:
            draft.offload(storage[1])
        else:
            break
    return draft


def _best_storage(draft: _Draft, segment: int, prices: list[float]) -> Optional[tuple[float, int]]:
    """Returns (seconds per byte, index) of the storage that frees a byte of the segment in the least time.
    Ties: the first saved."""
    best: Optional[tuple[float, int]] = None
    for index, storage in enumerate(draft.liveness.storages):
        if (
            index not in draft.offloaded
            and storage.released_at <= segment <= storage.needed_at
            and storage.size_bytes
        ):
            price = prices[index] / storage.size_bytes
            if best is None or price < best[0]:
                best = (price, index)
    return best


def _best_module(
    draft: _Draft, segment: int, prices: list[float], modules: list[int]
) -> Optional[tuple[float, int]]:
    best: Optional[tuple[float, int]] = None
    for index in modules:
        if _overlaps_recomputed(draft, index):
            continue
        module = draft.liveness.modules[index]
        freed_bytes = _freed_bytes(draft, index, segment)
        freed_bytes = min(freed_bytes, draft.levels[segment] - _peak_while_recomputing(draft, index))
        if freed_bytes <= 0:
            continue
        saved_seconds = sum(prices[storage] for storage in module.storages if storage in draft.offloaded)
        price = (module.forward_seconds - saved_seconds) / freed_bytes
        if best is None or price < best[0]:
            best = (price, index)
    return best


def _freed_bytes(draft: _Draft, index: int, segment: int) -> int:
    """Returns by how much recomputing a module lowers a segment."""
    table = draft.liveness.storages
    freed_bytes = sum(
        table[storage].size_bytes
        for storage in draft.liveness.modules[index].storages
        if storage not in draft.offloaded
        and table[storage].released_at <= segment <= table[storage].needed_at
    )
    return freed_bytes - sum(
        size_bytes
        for first, last, size_bytes in rematerialized(draft.liveness, index)
        if first <= segment <= last
    )


def _peak_while_recomputing(draft: _Draft, index: int) -> int:
    """Returns what is held while a module is recomputed, including its storages.

    A module that is the whole network, for example, keeps nothing until the backward pass begins, and then
    has everything back: the peak is nearly the same, a moment later.
    """
    table = draft.liveness.storages
    again = min(table[storage].needed_at for storage in draft.liveness.modules[index].storages) + 1
    return draft.levels[again] - _freed_bytes(draft, index, again) if again < len(draft.levels) else 0


def _overlaps_recomputed(draft: _Draft, index: int) -> bool:
    """Returns whether the module, or one inside or around it, is already recomputed."""
    if index in draft.recomputed or not draft.recomputed.isdisjoint(_enclosing(draft.liveness, index)):
        return True
    return any(index in _enclosing(draft.liveness, other) for other in draft.recomputed)


def _enclosing(liveness: Liveness, index: int) -> Iterator[int]:
    outer = liveness.modules[index].enclosing
    while outer is not None:
        yield outer
        outer = liveness.modules[outer].enclosing


def _undo_unnecessary(draft: _Draft, budget_bytes: int, prices: list[float]) -> None:
    """Undoes choices that later ones made unnecessary, the most expensive first."""
    covered = draft.covered
    units: list[tuple[float, int, Union[int, None]]] = [
        (prices[index], index, None) for index in draft.offloaded if index not in covered
    ]
    units += [(draft.liveness.modules[index].forward_seconds, index, index) for index in draft.recomputed]
    for _, index, module in sorted(units, key=lambda unit: (-unit[0], -unit[1])):
        storages = (index,) if module is None else draft.liveness.modules[module].storages
        if module is not None:
            draft.recompute(module, -1)
        for storage in storages:
            draft.keep(storage)
        if draft.peak_bytes <= budget_bytes:
            continue
        if module is not None:
            draft.recompute(module)
        else:
            draft.offload(index)


def _prefetch(
    draft: _Draft, liveness: Liveness, budget_bytes: int, lookahead: int
) -> dict[int, tuple[int, ...]]:
    """Starts copies as many reads ahead as the budget allows, and adds them to the levels."""
    covered = draft.covered
    table = liveness.storages
    read = sorted((i for i in range(len(table)) if i not in covered), key=lambda i: (table[i].needed_at, i))
    starts: dict[int, list[int]] = {}
    for place, index in enumerate(read):
        if index not in draft.offloaded:
            continue
        storage = table[index]
        for trigger in read[max(0, place - lookahead) : place]:
            first = max(table[trigger].needed_at + 1, storage.released_at)
            free_bytes = budget_bytes - max(draft.levels[first : storage.needed_at + 1], default=0)
            if first <= storage.needed_at and storage.size_bytes <= free_bytes:
                draft.add(first, storage.needed_at, storage.size_bytes)
                starts.setdefault(trigger, []).append(index)
                break
    return {trigger: tuple(indices) for trigger, indices in starts.items()}
