"""How much of the time each job is guaranteed, by how many others want the same GPUs.

If all jobs took turns, a job would run for the part φ = capacity / demand of the time. It is guaranteed φ · φ³ / (φ³ + (1 - φ)³).
That is nearly φ where there is room for nearly all jobs: none is kept out for long there. It falls with the fourth power where demand
is far above capacity and the order policy has to choose: all guarantees together then take little of the capacity.

φ is rounded down to one of 16 steps for each halving, so that a job that comes or goes rarely changes anybody's guarantee.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from laneway.scheduling.model.gpu_class import GPUClass

_STEPS_PER_HALVING = 16
_MOST_STEPS = 160
"""Demand of a thousand times the capacity; below that nothing is guaranteed."""

_IDLE_STEPS = 4

_PRECISION = 2**20
"""A job's width is divided among the classes of GPUs that suit it in integers, so that sums are exact."""

Group = tuple[int, tuple[GPUClass, ...]]
"""Jobs of one priority that the same classes of GPUs suit."""


class _Entry(NamedTuple):
    group: Group
    percent: int


class Contention:
    """The demand of all jobs that run or could, by priority and class of GPUs."""

    def __init__(self) -> None:
        self._capacity: Mapping[GPUClass, int] = {}
        self._idle: Mapping[GPUClass, int] = {}
        self._entries: dict[str, _Entry] = {}
        self._members: dict[Group, set[str]] = defaultdict(set)
        self._demand: dict[int, dict[GPUClass, int]] = defaultdict(lambda: defaultdict(int))
        """By priority and class, in percent of a GPU times the precision."""

        self._moved: set[str] = set()
        """Jobs that have joined or left a group since the last refresh."""

        self._shares: dict[Group, float] = {}
        self._changed = False

    def set_capacity(self, percent: Mapping[GPUClass, int]) -> None:
        """Set how much there is of each class, in percent of a GPU."""
        if percent == self._capacity:
            return
        entries = list(self._entries.items())
        for key, _ in entries:
            self.remove(key)
        self._capacity = dict(percent)
        for key, entry in entries:
            self.add(key, entry.group, entry.percent)

    def set_idle(self, percent: Mapping[GPUClass, int]) -> None:
        """Set what is idle of each class, in percent of a GPU."""
        if percent != self._idle:
            self._idle = dict(percent)
            self._changed = True

    def add(self, key: str, group: Group, percent: int) -> None:
        """Count a job, or count it in another way.

        Args:
            key: the job.
            group: its priority, and the classes of GPUs that suit it.
            percent: what it needs, in percent of a GPU.
        """
        entry = _Entry(group, percent)
        if self._entries.get(key) == entry:
            return
        self.remove(key)
        self._entries[key] = entry
        self._members[group].add(key)
        self._moved.add(key)
        self._count(entry, 1)

    def remove(self, key: str) -> None:
        """Count a job no more."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._members[entry.group].discard(key)
            self._moved.add(key)
            self._count(entry, -1)

    def share(self, key: str) -> float:
        """Return the part of the time that a job is guaranteed."""
        entry = self._entries.get(key)
        return 0.0 if entry is None else self._share(entry.group)

    def refresh(self) -> set[str]:
        """Bring the guarantees up to date; return the jobs whose guarantee may have changed."""
        if not self._changed:
            return set()
        self._changed = False
        before, self._shares = self._shares, {}
        found, self._moved = self._moved, set()
        for group in list(self._members):
            if not self._members[group]:
                del self._members[group]
            elif before.get(group) != self._share(group):
                found |= self._members[group]
        return found

    def _share(self, group: Group) -> float:
        share = self._shares.get(group)
        if share is None:
            share = self._shares[group] = _guaranteed(self._fair_share(group), self._idle_part(group))
        return share

    def _fair_share(self, group: Group) -> float:
        priority, classes = group
        wanted = sum(self._demand[priority][each] for each in classes)
        before = sum(
            demand[each] for other, demand in self._demand.items() if other > priority for each in classes
        )
        left = sum(self._capacity.get(each, 0) for each in classes) * _PRECISION - before
        if left <= 0:
            return 0.0
        if left >= wanted:
            return 1.0
        steps = math.ceil(_STEPS_PER_HALVING * math.log2(wanted / left))
        return 2.0 ** (-steps / _STEPS_PER_HALVING) if steps <= _MOST_STEPS else 0.0

    def _idle_part(self, group: Group) -> float:
        idle = sum(self._idle.get(each, 0) for each in group[1])
        capacity = sum(self._capacity.get(each, 0) for each in group[1])
        return _IDLE_STEPS * idle // capacity / _IDLE_STEPS if capacity else 0.0

    def _count(self, entry: _Entry, sign: int) -> None:
        self._changed = True
        (priority, classes), percent = entry
        demand = self._demand[priority]
        capacity = sum(self._capacity.get(each, 0) for each in classes)
        for each in classes:
            part = self._capacity.get(each, 0) / capacity if capacity else 1 / len(classes)
            demand[each] += sign * round(_PRECISION * percent * part)


def _guaranteed(fair_share: float, idle: float) -> float:
    there, not_there = fair_share**3, (1 - fair_share) ** 3
    return fair_share * max(idle, there / (there + not_there))
