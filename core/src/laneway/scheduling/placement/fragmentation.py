"""Fragmentation: the free GPU percent of a node that typical tasks cannot use (Weng et al., ATC'23, sections 3 and 4)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from laneway.scheduling.gpus.node_states import State

_KEPT = 1 << 16
"""The size of the result cache. States repeat across jobs and nodes, so most results are in it."""

ENOUGH_CPUS = -1
"""The CPU tier of a node with CPUs for every kind of task."""


class Task(NamedTuple):
    """A typical kind of task."""

    share_percent: int
    """Percent that it needs of each of its GPUs."""

    gpus: int
    """GPUs of one node that it needs."""

    popularity_ratio: float
    """The fraction of tasks of this kind."""

    cpu_millis: int = 0
    """CPUs that it needs, in thousandths."""


class Step(NamedTuple):
    """One worker placed on a node."""

    growth_percent: float
    """By how much the expected fragmentation of the node grows; it may shrink."""

    levels: tuple[int, ...]
    """The free percents of the taken GPUs before, rising."""


class Fragmentation:
    """The expected fragmentation of nodes, for one distribution of tasks.

    Of a node's CPUs it matters only for which kinds of tasks they suffice. That is the node's CPU tier: how many of the amounts of
    CPUs that tasks need it has left. Nodes of one tier and one state are alike.
    """

    def __init__(self, tasks: Sequence[Task], step_percent: float = 1e-6) -> None:
        """Prepare a distribution.

        Args:
            tasks: the kinds of tasks.
            step_percent: growths are rounded to multiples of it. The default only removes floating-point errors.
        """
        self._step_percent = step_percent
        self._cpu_millis = sorted({task.cpu_millis for task in tasks if task.cpu_millis})
        self._of_tier = [_Kinds.of(tasks, most) for most in (0, *self._cpu_millis)]
        self.expected_percent = lru_cache(_KEPT)(self._expected_percent)
        self.least = lru_cache(_KEPT)(self._least)

    @property
    def counts_cpus(self) -> bool:
        """Whether any kind of task needs CPUs."""
        return bool(self._cpu_millis)

    def cpu_tier(self, cpu_millis: float) -> int:
        """Return the tier of a node with this much left of its CPUs."""
        return bisect_right(self._cpu_millis, cpu_millis)

    def _expected_percent(self, state: State, tier: int = ENOUGH_CPUS) -> float:
        """Return the expected free percent of a node in this state that a task of the distribution cannot use. For a task
        that does not fit the node, everything free is a fragment; for another, the free parts of GPUs with too little for it.
        """
        free_percent, kinds = sum(state), self._of_tier[tier]
        expected = kinds.lack_cpus_ratio * free_percent
        for (share_percent, gpus), popularity_ratio in kinds.popularity_ratio:
            too_small = bisect_left(state, share_percent)
            fits = len(state) - too_small >= gpus
            expected += popularity_ratio * (sum(state[:too_small]) if fits else free_percent)
        return expected

    def _least(
        self,
        state: State,
        open_levels: State,
        share_percent: int,
        gpus: int,
        tier: int = ENOUGH_CPUS,
        tier_after: int = ENOUGH_CPUS,
    ) -> Step | None:
        """Return the placement of a worker on which the node's fragmentation grows least, the fullest GPU on a tie; None if it has
        no room.

        Args:
            state: of the node.
            open_levels: the free percent of those of its GPUs that may be taken, rising.
            share_percent: percent that the worker needs of each of its GPUs.
            gpus: how many it needs.
            tier: of the node's CPUs.
            tier_after: their tier once the worker is there.
        """
        levels = open_levels[bisect_left(open_levels, share_percent) :]
        if len(levels) < gpus:
            return None
        options = [(level,) for level in sorted(set(levels))] if gpus == 1 else [levels[:gpus]]
        before = self.expected_percent(state, tier)

        def rounded(taken: State) -> float:
            growth = self.expected_percent(reduced(state, taken, share_percent), tier_after) - before
            return round(growth / self._step_percent) * self._step_percent

        return min(Step(rounded(taken), taken) for taken in options)


class _Kinds(NamedTuple):
    """The distribution of tasks as a node of one CPU tier sees it."""

    popularity_ratio: tuple[tuple[tuple[int, int], float], ...]
    """Of the tasks that its CPUs suffice for, by share in percent and number of GPUs."""

    lack_cpus_ratio: float
    """The fraction of tasks for which its CPUs do not suffice."""

    @classmethod
    def of(cls, tasks: Sequence[Task], most_cpu_millis: int) -> _Kinds:
        """Return the distribution where tasks with up to this many CPUs fit."""
        fitting: dict[tuple[int, int], float] = {}
        lacking = 0.0
        for task in tasks:
            if task.cpu_millis <= most_cpu_millis:
                kind = (task.share_percent, task.gpus)
                fitting[kind] = fitting.get(kind, 0.0) + task.popularity_ratio
            else:
                lacking += task.popularity_ratio
        return cls(tuple(fitting.items()), lacking)


def reduced(state: State, levels: Sequence[int], share_percent: int) -> State:
    """Return the state of a node after GPUs with these free percents have each given up a share."""
    percents = list(state)
    for level in levels:
        percents.remove(level)
        insort(percents, level - share_percent)
    return tuple(percents)
