"""Chooses what to keep, to move to the host, and to compute again, so that the iteration's peak stays within a budget.

After SuperNeurons (PPoPP'18, sections 3.2 to 3.4): liveness first, then the host as a second pool with prefetching, then recomputation where that
is cheaper; there the unit is a layer by its type, here it is a storage or a module by what was measured of it.

From everything kept, the highest segment is lowered by what frees a byte there in the least time, until all segments are within the
budget; then whatever turned out to be unnecessary is kept after all, the dearest first. What is free at the end serves prefetching.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Optional, Union

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laneway.client.fit.liveness import Liveness, Rates

LOOKAHEAD: Final = 3
"""So many reads ahead a storage comes back at the earliest: enough for the copy, and little memory."""
LAST_RESORT: Final = 1e6
"""The weight of the time of a means that is only for what the others cannot reach."""


class Means(Enum):
    """What may be done."""

    OFFLOAD = "Offload"
    RECOMPUTE = "Recompute"
    """And offload only what cannot be had by recomputing."""
    BOTH = "Auto"


@dataclass(frozen=True)
class Plan:
    """What to do with each storage of a table, by its index."""

    away: frozenset[int]
    """On the host from when they are kept until they are needed."""
    recomputed: frozenset[int]
    """Modules, whose storages are not kept."""
    fetch_after: Mapping[int, tuple[int, ...]]
    """When the backward pass first reads a storage: those whose copies start then. The rest of `away` comes when it is read."""
    peak_bytes: int
    """The most that is held, as far as the table tells."""
    extra_seconds: float
    """What is added to the iteration's time, as far as the costs tell."""


def plan(
    liveness: Liveness, budget_bytes: int, rates: Rates, means: Means = Means.BOTH, lookahead: int = LOOKAHEAD
) -> Plan:
    """Chooses. Where nothing keeps within the budget, the plan is the one that comes closest, and `peak_bytes` says so.

    Args:
        liveness: the table.
        budget_bytes: what may be held, persistent memory included.
        rates: what moving costs.
        means: what may be done.
        lookahead: how many reads ahead a storage comes back at the earliest.
    """
    prices = [rates.move_seconds(storage) for storage in liveness.storages]
    draft = _lowered(liveness, budget_bytes, prices, means)
    if draft.peak_bytes > budget_bytes and draft.recomputed:
        # What is computed again takes room of its own, where moving would have done.
        moved = _lowered(liveness, budget_bytes, prices, Means.OFFLOAD)
        if moved.peak_bytes < draft.peak_bytes:
            draft = moved
    _keep_what_fits(draft, max(budget_bytes, draft.peak_bytes), prices)
    fetch_after = _prefetch(draft, liveness, max(budget_bytes, draft.peak_bytes), lookahead)
    away = draft.away - draft.covered
    seconds = sum(prices[index] for index in away)
    seconds += sum(liveness.modules[index].forward_seconds for index in draft.recomputed)
    return Plan(frozenset(away), frozenset(draft.recomputed), fetch_after, draft.peak_bytes, seconds)


@dataclass
class _Draft:
    """A choice that is being made, and the most held in each segment under it."""

    liveness: Liveness
    levels: list[int]
    away: set[int] = field(default_factory=set)
    """Storages that are not kept: moved, or of a recomputed module."""
    recomputed: set[int] = field(default_factory=set)

    @property
    def peak_bytes(self) -> int:
        return max(self.levels)

    @property
    def covered(self) -> set[int]:
        """Storages that recomputed modules bring back."""
        return {index for module in self.recomputed for index in self.liveness.modules[module].storages}

    def add(self, first: int, last: int, size_bytes: int) -> None:
        """Holds so much more in the segments from first to last."""
        levels = self.levels
        for segment in range(first, last + 1):
            levels[segment] += size_bytes

    def shift(self, index: int, sign: int) -> None:
        """Keeps a storage (1), or keeps it no longer (-1)."""
        storage = self.liveness.storages[index]
        self.add(storage.gone_at, storage.needed_at, sign * storage.size_bytes)

    def set_away(self, index: int) -> None:
        self.away.add(index)
        self.shift(index, -1)

    def set_kept(self, index: int) -> None:
        self.away.discard(index)
        self.shift(index, 1)

    def recompute(self, index: int, sign: int = 1) -> None:
        """Computes a module again (1); or no longer (-1), then its storages are away."""
        for first, last, size_bytes in brought_back(self.liveness, index):
            self.add(first, last, sign * size_bytes)
        if sign < 0:
            self.recomputed.discard(index)
            return
        self.recomputed.add(index)
        for storage in self.liveness.modules[index].storages:
            if storage not in self.away:
                self.set_away(storage)


def brought_back(liveness: Liveness, index: int) -> Iterator[tuple[int, int, int]]:
    """What computing a module again holds: (first segment, last segment, bytes)."""
    module = liveness.modules[index]
    kept_from = min(liveness.storages[storage].gone_at for storage in module.storages)
    first = min(liveness.storages[storage].needed_at for storage in module.storages) + 1
    yield kept_from, first - 1, module.kept_bytes
    if first < len(liveness.crests_bytes):
        yield first, first, module.working_bytes
    for each in module.storages:
        storage = liveness.storages[each]
        yield first, storage.needed_at, storage.size_bytes


def _lowered(liveness: Liveness, budget_bytes: int, prices: list[float], means: Means) -> _Draft:
    """Everything kept, less what brings all segments within the budget; or as close to it as can be."""
    draft = _Draft(liveness, list(liveness.crests_bytes))
    for index in range(len(liveness.storages)):
        draft.shift(index, 1)
    weight = LAST_RESORT if means is Means.RECOMPUTE else 1.0
    modules = [] if means is Means.OFFLOAD else [i for i, m in enumerate(liveness.modules) if m.storages]
    while draft.peak_bytes > budget_bytes:
        segment = draft.levels.index(draft.peak_bytes)
        storage = _best_storage(draft, segment, prices)
        module = _best_module(draft, segment, prices, modules)
        if module is not None and (storage is None or module[0] < weight * storage[0]):
            draft.recompute(module[1])
        elif storage is not None:
            draft.set_away(storage[1])
        else:
            break
    return draft


def _best_storage(draft: _Draft, segment: int, prices: list[float]) -> Optional[tuple[float, int]]:
    """The one that frees a byte of the segment in the least time: (seconds a byte, index). Of equals, the first that is kept."""
    best: Optional[tuple[float, int]] = None
    for index, storage in enumerate(draft.liveness.storages):
        if index not in draft.away and storage.gone_at <= segment <= storage.needed_at and storage.size_bytes:
            price = prices[index] / storage.size_bytes
            if best is None or price < best[0]:
                best = (price, index)
    return best


def _best_module(
    draft: _Draft, segment: int, prices: list[float], modules: list[int]
) -> Optional[tuple[float, int]]:
    best: Optional[tuple[float, int]] = None
    for index in modules:
        if _overlaps_another(draft, index):
            continue
        module = draft.liveness.modules[index]
        freed_bytes = _freed_bytes(draft, index, segment)
        freed_bytes = min(freed_bytes, draft.levels[segment] - _peak_of_its_own(draft, index))
        if freed_bytes <= 0:
            continue
        saved_seconds = sum(prices[storage] for storage in module.storages if storage in draft.away)
        price = (module.forward_seconds - saved_seconds) / freed_bytes
        if best is None or price < best[0]:
            best = (price, index)
    return best


def _freed_bytes(draft: _Draft, index: int, segment: int) -> int:
    """By how much computing a module again lowers a segment."""
    table = draft.liveness.storages
    freed_bytes = sum(
        table[storage].size_bytes
        for storage in draft.liveness.modules[index].storages
        if storage not in draft.away and table[storage].gone_at <= segment <= table[storage].needed_at
    )
    return freed_bytes - sum(
        size_bytes
        for first, last, size_bytes in brought_back(draft.liveness, index)
        if first <= segment <= last
    )


def _peak_of_its_own(draft: _Draft, index: int) -> int:
    """What is held while a module computes again, its storages included. A whole network as one module, say, keeps nothing until the
    backward pass begins, and has all of it back then: the peak is nearly the same, a moment later."""
    table = draft.liveness.storages
    again = min(table[storage].needed_at for storage in draft.liveness.modules[index].storages) + 1
    return draft.levels[again] - _freed_bytes(draft, index, again) if again < len(draft.levels) else 0


def _overlaps_another(draft: _Draft, index: int) -> bool:
    """It is computed again already, or a module inside or around it is."""
    if index in draft.recomputed or not draft.recomputed.isdisjoint(_around(draft.liveness, index)):
        return True
    return any(index in _around(draft.liveness, other) for other in draft.recomputed)


def _around(liveness: Liveness, index: int) -> Iterator[int]:
    outer = liveness.modules[index].within
    while outer is not None:
        yield outer
        outer = liveness.modules[outer].within


def _keep_what_fits(draft: _Draft, budget_bytes: int, prices: list[float]) -> None:
    """Takes back, the dearest first, what the others made unnecessary."""
    covered = draft.covered
    units: list[tuple[float, int, Union[int, None]]] = [
        (prices[index], index, None) for index in draft.away if index not in covered
    ]
    units += [(draft.liveness.modules[index].forward_seconds, index, index) for index in draft.recomputed]
    for _, index, module in sorted(units, key=lambda unit: (-unit[0], -unit[1])):
        storages = (index,) if module is None else draft.liveness.modules[module].storages
        if module is not None:
            draft.recompute(module, -1)
        for storage in storages:
            draft.set_kept(storage)
        if draft.peak_bytes <= budget_bytes:
            continue
        if module is not None:
            draft.recompute(module)
        else:
            draft.set_away(index)


def _prefetch(
    draft: _Draft, liveness: Liveness, budget_bytes: int, lookahead: int
) -> dict[int, tuple[int, ...]]:
    """Starts copies as many reads ahead as the budget lets them; the levels then include them."""
    covered = draft.covered
    table = liveness.storages
    read = sorted((i for i in range(len(table)) if i not in covered), key=lambda i: (table[i].needed_at, i))
    starts: dict[int, list[int]] = {}
    for place, index in enumerate(read):
        if index not in draft.away:
            continue
        storage = table[index]
        for trigger in read[max(0, place - lookahead) : place]:
            first = max(table[trigger].needed_at + 1, storage.gone_at)
            room = budget_bytes - max(draft.levels[first : storage.needed_at + 1], default=0)
            if first <= storage.needed_at and storage.size_bytes <= room:
                draft.add(first, storage.needed_at, storage.size_bytes)
                starts.setdefault(trigger, []).append(index)
                break
    return {trigger: tuple(indices) for trigger, indices in starts.items()}
