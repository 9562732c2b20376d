"""How much of the time each job is guaranteed, by how many others want the same GPUs.

A job spreads its demand over the GPUs that it can use, in proportion to their capacity. If all jobs took turns, a job would run for
the part φ = capacity / demand of the time on each of them; its fair share φ is the mean. It is guaranteed φ · φ³ / (φ³ + (1 - φ)³).
That is nearly φ where there is room for nearly all jobs: none is kept out for long there. It falls with the fourth power where demand
is far above capacity and the order policy has to choose: all guarantees together then take little of the capacity.

φ is rounded down to one of 16 steps for each halving, so that a job that comes or goes rarely changes anybody's guarantee.

A gang often waits beside idle GPUs because they are too few for it. It is guaranteed at least the part of φ that is idle: others lose
nothing by that. Idle is what the last decision left idle, if it was not truncated. GPUs that have just become free will mostly be taken by
the next decision, and those that it keeps for a gang are not idle.

GPUs that the same jobs can use are counted together, as one *cell*. There are few: jobs differ by the models that they accept and by
their node selectors, and a job that avoids next to nothing counts as one that may run anywhere.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from laneway.scheduling.gpus.numbering import Pool
from laneway.scheduling.model.gpu_class import GPUClass

_STEPS_PER_HALVING = 16
_MOST_STEPS = 160
"""Demand of a thousand times the capacity; below that nothing is guaranteed."""

_IDLE_STEPS = 4

_NEXT_TO_NOTHING = 64
"""A job that avoids less than this part of the GPUs counts as one that avoids none: a few nodes on which it has failed, say."""

_MOST_SETS = 64
"""Sets of nodes that are told apart, those of the fewest nodes first. Jobs with another one count as jobs that may run anywhere: else who
submits jobs with a set of nodes each would make every decision slow."""

_WHOLE = 2**40
"""Parts are integers, of this many in all, so that sums are exact."""

_ROUNDING = 1e-6
"""The rounding error of a number of steps."""


class _Usable(NamedTuple):
    """GPUs that a job can use."""

    classes: tuple[GPUClass, ...]
    avoided: frozenset[int]


class Group(NamedTuple):
    """Jobs of one priority that can use the same GPUs."""

    priority: int
    classes: tuple[GPUClass, ...]
    """Of the GPUs that suit them."""

    avoided: frozenset[int] = frozenset()
    """Numbers of the nodes that they are kept away from."""

    @property
    def usable(self) -> _Usable:
        """The GPUs that they can use."""
        return _Usable(self.classes, self.avoided)


class _Entry(NamedTuple):
    group: Group
    percent: int
    counts_in: Group
    """Without avoided nodes if they are next to nothing."""


class _Cells:
    """The pools of GPUs, divided into cells: two pools are in one cell if the same jobs can use them."""

    def __init__(self, pools: Sequence[Pool], capacity: Sequence[int], sets: Iterable[_Usable]) -> None:
        pools_of = {
            each: [number for number, pool in enumerate(pools) if _may_use(each, pool)] for each in sets
        }
        users: list[list[int]] = [[] for _ in pools]
        for number, usable in enumerate(pools_of.values()):
            for pool in usable:
                users[pool].append(number)
        cells: dict[tuple[int, ...], int] = {}
        self._cell_of = [cells.setdefault(tuple(each), len(cells)) for each in users]
        self._of = {key: sorted({self._cell_of[pool] for pool in usable}) for key, usable in pools_of.items()}
        self._apart: Collection[_Usable] = self._of.keys()
        self.capacity = self.sums(capacity)
        """By cell, in percent of a GPU."""

    def sums(self, of_pools: Sequence[int]) -> Counter[int]:
        """Add up by cell what is given by pool."""
        found: Counter[int] = Counter()
        for cell, percent in zip(self._cell_of, of_pools, strict=True):
            found[cell] += percent
        return found

    def tell_apart(self, sets: Collection[_Usable]) -> bool:
        """Tell these sets of GPUs apart from now on; False: they are not all known."""
        self._apart = sets
        return all(each in self._of for each in sets)

    def of(self, group: Group) -> list[int]:
        """Return the cells whose GPUs a group can use, as far as that is told apart."""
        usable = group.usable
        return self._of[usable if usable in self._apart else usable._replace(avoided=frozenset())]


class Contention:
    """The demand of all jobs that run or could, by priority and by the GPUs that they can use."""

    def __init__(self) -> None:
        self._pools: Sequence[Pool] = ()
        self._capacity: Sequence[int] = ()
        self._idle: Sequence[int] = ()
        self._capacity_on: dict[int, Counter[GPUClass]] = {}
        """By node and class."""

        self._capacity_of: Counter[GPUClass] = Counter()
        self._counted_as: dict[Group, Group] = {}
        self._entries: dict[str, _Entry] = {}
        self._members: dict[Group, set[str]] = defaultdict(set)
        self._demand: Counter[Group] = Counter()
        """In percent of a GPU."""

        self._moved: set[str] = set()
        """Jobs that have joined or left a group since the last refresh."""

        self._cells: _Cells | None = None
        self._guarantees: dict[Group, float] = {}
        self._changed = False

    def set_capacity(self, pools: Sequence[Pool], percent: Sequence[int]) -> None:
        """Set the pools of GPUs, and what each offers, in percent of a GPU."""
        if (pools, percent) == (self._pools, self._capacity):
            return
        entries = list(self._entries.items())
        for key, _ in entries:
            self.remove(key)
        self._pools, self._capacity, self._idle = pools, list(percent), [0] * len(pools)
        self._capacity_on, self._capacity_of, self._cells = defaultdict(Counter), Counter(), None
        self._counted_as.clear()
        for pool, offered in zip(pools, percent, strict=True):
            self._capacity_on[pool.node][pool.gpu_class] += offered
            self._capacity_of[pool.gpu_class] += offered
        for key, entry in entries:
            self.add(key, entry.group, entry.percent)

    def set_idle(self, percent: Sequence[int]) -> None:
        """Set what is idle of each pool, in percent of a GPU."""
        if percent != self._idle:
            self._idle = list(percent)
            self._changed = True

    def add(self, key: str, group: Group, percent: int) -> None:
        """Count a job, or count it in another way.

        Args:
            key: the job.
            group: its priority, and the GPUs that it can use.
            percent: what it needs, in percent of a GPU.
        """
        before = self._entries.get(key)
        if before is not None and before[:2] == (group, percent):
            return
        self.remove(key)
        entry = self._entries[key] = _Entry(group, percent, self._counts_in(group))
        self._members[entry.counts_in].add(key)
        self._count(key, entry, 1)

    def remove(self, key: str) -> None:
        """Count a job no more."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._members[entry.counts_in].discard(key)
            self._count(key, entry, -1)

    def share(self, key: str) -> float:
        """Return the part of the time that a job is guaranteed, as of the last refresh."""
        entry = self._entries.get(key)
        return 0.0 if entry is None else self._guarantees.get(entry.counts_in, 0.0)

    def refresh(self) -> set[str]:
        """Bring the guarantees up to date; return the jobs whose guarantee may have changed."""
        if not self._changed:
            return set()
        self._changed = False
        for group in [group for group, members in self._members.items() if not members]:
            del self._members[group], self._demand[group]
        if len(self._counted_as) > 2 * len(self._entries):  # most avoid what no job avoids any more
            self._counted_as.clear()
        before, self._guarantees = self._guarantees, dict(self._guaranteed())
        found, self._moved = self._moved, set()
        for group, members in self._members.items():
            if before.get(group) != self._guarantees[group]:
                found |= members
        return found

    def _guaranteed(self) -> Iterator[tuple[Group, float]]:
        sets = _told_apart({group.usable for group in self._members})
        if self._cells is None or not self._cells.tell_apart(sets):
            self._cells = _Cells(self._pools, self._capacity, sets)
        cells = self._cells
        idle_percent = cells.sums(self._idle)
        left = dict.fromkeys(cells.capacity, _WHOLE)
        for priority in sorted({group.priority for group in self._members}, reverse=True):
            groups = [group for group in self._members if group.priority == priority]
            wanted = self._wanted(groups, cells)
            parts = {cell: left[cell] * _WHOLE // max(left[cell], part, 1) for cell, part in wanted.items()}
            for group in groups:
                capacity = sum(cells.capacity[cell] for cell in cells.of(group))
                fair = sum(cells.capacity[cell] * parts[cell] for cell in cells.of(group))
                idle = sum(idle_percent[cell] for cell in cells.of(group))
                yield group, _guarantee(_rounded(fair, capacity), _IDLE_STEPS * idle // max(1, capacity))
            for cell, part in wanted.items():
                left[cell] = max(0, left[cell] - part)

    def _wanted(self, groups: Iterable[Group], cells: _Cells) -> Counter[int]:
        """Return, by cell, the part of it that the jobs of some groups want together: more than the whole if it is scarce."""
        wanted: Counter[int] = Counter()
        for group in groups:
            capacity = sum(cells.capacity[cell] for cell in cells.of(group))
            part = self._demand[group] * _WHOLE // max(1, capacity)
            for cell in cells.of(group):
                wanted[cell] += part
        return wanted

    def _count(self, key: str, entry: _Entry, sign: int) -> None:
        self._changed = True
        self._moved.add(key)
        self._demand[entry.counts_in] += sign * entry.percent

    def _counts_in(self, group: Group) -> Group:
        found = self._counted_as.get(group)
        if found is None:
            usable = sum(self._capacity_of[each] for each in group.classes)
            on_avoided = [self._capacity_on[node] for node in group.avoided if node in self._capacity_on]
            avoided = sum(offered[each] for offered in on_avoided for each in group.classes)
            anywhere = _NEXT_TO_NOTHING * avoided <= usable
            found = group._replace(avoided=frozenset()) if anywhere else group
            self._counted_as[group] = found
        return found


def _told_apart(sets: Set[_Usable]) -> Set[_Usable]:
    """Return the sets that are told apart, with those of the jobs that may run anywhere. It depends on nothing but the sets."""
    anywhere = {each._replace(avoided=frozenset()) for each in sets}
    others = sets - anywhere
    if len(others) > _MOST_SETS:
        others = set(heapq.nsmallest(_MOST_SETS, others, key=_by_nodes))
    return others | anywhere


def _by_nodes(usable: _Usable) -> tuple[object, ...]:
    # The hash of a set of integers is the same in every process.
    return -len(usable.avoided), hash(usable.avoided), usable.classes


def _may_use(usable: _Usable, pool: Pool) -> bool:
    return pool.gpu_class in usable.classes and pool.node not in usable.avoided


def _rounded(fair: int, capacity: int) -> float:
    """Return a fair share, given by what it is of a capacity, rounded down to a step."""
    if fair <= 0:
        return 0.0
    steps = math.ceil(_STEPS_PER_HALVING * math.log2(_WHOLE * capacity / fair) - _ROUNDING)
    return 2.0 ** (-steps / _STEPS_PER_HALVING) if steps <= _MOST_STEPS else 0.0


def _guarantee(fair_share: float, idle_steps: int) -> float:
    """Return the part of the time that each job of a group is guaranteed."""
    there, not_there = fair_share**3, (1 - fair_share) ** 3
    return fair_share * max(idle_steps / _IDLE_STEPS, there / (there + not_there))
