"""Fragmentation: the free GPU percent of a node that typical tasks cannot use (Weng et al., ATC'23, sections 3 and 4)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from laneway.scheduling.gpus.node_states import State

_KEPT = 1 << 16
"""The size of the result cache. States repeat across jobs and nodes, so most results are in it."""


class Task(NamedTuple):
    """A typical kind of task."""

    share_percent: int
    """Percent that it needs of each of its GPUs."""

    gpus: int
    """GPUs of one node that it needs."""

    popularity_ratio: float
    """The fraction of tasks of this kind."""


class Step(NamedTuple):
    """One worker placed on a node."""

    growth_percent: float
    """By how much the expected fragmentation of the node grows; it may shrink."""

    levels: tuple[int, ...]
    """The free percents of the taken GPUs before, rising."""


class Fragmentation:
    """The expected fragmentation of nodes, for one distribution of tasks."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks = tuple(tasks)
        self.expected_percent = lru_cache(_KEPT)(self._expected_percent)
        self.least = lru_cache(_KEPT)(self._least)

    def _expected_percent(self, state: State) -> float:
        """Return the expected free percent of a node in this state that a task of the distribution cannot use. For a task
        that does not fit the node, everything free is a fragment; for another, the free parts of GPUs with too little for it.
        """
        free_percent = sum(state)
        expected = 0.0
        for share_percent, gpus, popularity_ratio in self._tasks:
            too_small = bisect_left(state, share_percent)
            fits = len(state) - too_small >= gpus
            expected += popularity_ratio * (sum(state[:too_small]) if fits else free_percent)
        return expected

    def _least(self, state: State, open_levels: State, share_percent: int, gpus: int) -> Step | None:
        """Return the placement of a worker on which the node's fragmentation grows least; None if it has no room.

        Args:
            state: of the node.
            open_levels: the free percent of those of its GPUs that may be taken, rising.
            share_percent: percent that the worker needs of each of its GPUs.
            gpus: how many it needs.
        """
        levels = open_levels[bisect_left(open_levels, share_percent) :]
        if len(levels) < gpus:
            return None
        options = [(level,) for level in sorted(set(levels))] if gpus == 1 else [levels[:gpus]]
        before = self.expected_percent(state)
        return min(
            # Rounded, so that values that differ only by floating-point errors count as equal.
            Step(round(self.expected_percent(reduced(state, taken, share_percent)) - before, 6), taken)
            for taken in options
        )


def reduced(state: State, levels: Sequence[int], share_percent: int) -> State:
    """Return the state of a node after GPUs with these free percents have each given up a share."""
    percents = list(state)
    for level in levels:
        percents.remove(level)
        insort(percents, level - share_percent)
    return tuple(percents)
