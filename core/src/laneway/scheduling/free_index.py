"""Indexes over the free percent of GPUs, so that placing a job does not walk all of them.

GPUs and nodes are numbered in the order of (node, index, uuid) and of node names; numbers make ties fall the same way
whatever the order of the snapshot's lists.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from laneway.scheduling.node_states import NodeStates
from laneway.scheduling.suitability import GPUClass

Change = tuple[int, int, int]
"""A GPU's number, and its free percent before and after."""


class NodeCounts:
    """Of one class: how many GPUs of each node have at least so much free, and the nodes by that number."""

    def __init__(self, nodes: Iterable[int]) -> None:
        """Count the GPUs that are given by the numbers of their nodes."""
        self.of: dict[int, int] = dict(Counter(nodes))
        self.nodes: dict[int, list[int]] = {}
        """By number of GPUs (never 0): the nodes that have so many, in order."""

        for node in sorted(self.of):
            self.nodes.setdefault(self.of[node], []).append(node)

    def change(self, node: int, by: int) -> None:
        """Count ``by`` more GPUs of a node."""
        before = self.of.get(node, 0)
        after = before + by
        if before:
            _discard(self.nodes, before, node)
        if after:
            insort(self.nodes.setdefault(after, []), node)
        self.of[node] = after


class _ClassIndex:
    """The GPUs of one class by free percent. Counts by node are kept per threshold that was asked for, and catch up with
    what has changed when they are asked for again: a share that nobody wants any more costs nothing."""

    def __init__(self) -> None:
        self.levels: dict[int, list[int]] = {}
        self.gpus = 0
        self.free_sum = 0
        self._changes: list[Change] = []
        self._counts: dict[int, tuple[int, NodeCounts]] = {}
        self._states: tuple[int, NodeStates] | None = None

    def add(self, gpu: int, percent: int) -> None:
        """Enter a GPU, in rising order of numbers."""
        self.levels.setdefault(percent, []).append(gpu)
        self.free_sum += percent
        self.gpus += 1

    def move(self, gpu: int, before: int, after: int) -> None:
        """Note what is free of a GPU now."""
        self.free_sum += after - before
        _discard(self.levels, before, gpu)
        insort(self.levels.setdefault(after, []), gpu)
        if self._counts or self._states:
            self._changes.append((gpu, before, after))
            if len(self._changes) > 2 * self.gpus + 16:  # counting anew is cheaper than catching up
                self._changes.clear()
                self._counts.clear()
                self._states = None

    def counts(self, at_least_percent: int, nodes: Sequence[int]) -> NodeCounts:
        """Return, by node, how many GPUs have at least so much free, as of now."""
        seen, counts = self._counts.get(at_least_percent, (0, None))
        if counts is None:
            counts = NodeCounts(
                nodes[gpu] for level, at in self.levels.items() if level >= at_least_percent for gpu in at
            )
        elif seen < len(self._changes):
            by_node: dict[int, int] = {}
            for gpu, before, after in self._changes[seen:]:
                if (before >= at_least_percent) != (after >= at_least_percent):
                    node = nodes[gpu]
                    by_node[node] = by_node.get(node, 0) + (1 if after >= at_least_percent else -1)
            for node, by in by_node.items():
                if by:
                    counts.change(node, by)
        self._counts[at_least_percent] = (len(self._changes), counts)
        return counts

    def states(self, nodes: Sequence[int]) -> NodeStates:
        """Return the nodes by what is free of their GPUs, as of now."""
        if self._states is None:
            states = NodeStates((nodes[gpu], level) for level, at in self.levels.items() for gpu in at)
        else:
            seen, states = self._states
            for gpu, before, after in self._changes[seen:]:
                states.move(nodes[gpu], before, after)
        self._states = (len(self._changes), states)
        return states


class FreeIndex:
    """GPUs by class and free percent."""

    def __init__(
        self, classes: Sequence[GPUClass], nodes: Sequence[int], free_percent: Mapping[int, int]
    ) -> None:
        """Index the GPUs that ``free_percent`` names.

        Args:
            classes: by GPU number.
            nodes: by GPU number: the number of its node.
            free_percent: by GPU number, in rising order.
        """
        self._nodes = nodes
        self._free = dict(free_percent)
        self._of: dict[GPUClass, _ClassIndex] = {}
        self._home: dict[int, _ClassIndex] = {}
        for gpu, percent in self._free.items():
            home = self._home[gpu] = self._of_class(classes[gpu])
            home.add(gpu, percent)

    def update(self, gpu: int, percent: int) -> None:
        """Note how much of a GPU is free now; GPUs that are not in the index are left out."""
        before = self._free.get(gpu)
        if before is not None and before != percent:
            self._free[gpu] = percent
            self._home[gpu].move(gpu, before, percent)

    def free_percent(self, gpu: int) -> int:
        """Return what is free of a GPU; 0 where it is not in the index."""
        return self._free.get(gpu, 0)

    def fullest(self, gpu_class: GPUClass, at_least_percent: int) -> Iterator[int]:
        """Yield the GPUs of a class with at least so much free, the least free first."""
        levels = self._of_class(gpu_class).levels
        for level in sorted(level for level in levels if level >= at_least_percent):
            yield from levels[level]

    def emptiest(self, gpu_class: GPUClass, at_least_percent: int) -> Iterator[int]:
        """Yield what :meth:`fullest` does, the most free first."""
        levels = self._of_class(gpu_class).levels
        for level in sorted((level for level in levels if level >= at_least_percent), reverse=True):
            yield from levels[level]

    def free_sum(self, gpu_class: GPUClass) -> int:
        """Return the free percent of all GPUs of a class together."""
        return self._of_class(gpu_class).free_sum

    def most_free(self, gpu_class: GPUClass) -> int:
        """Return the free percent of the emptiest GPU of a class; 0 where there is none."""
        return max(self._of_class(gpu_class).levels, default=0)

    def counts(self, gpu_class: GPUClass, at_least_percent: int) -> NodeCounts:
        """Return, by node, how many GPUs of a class have at least so much free."""
        return self._of_class(gpu_class).counts(at_least_percent, self._nodes)

    def states(self, gpu_class: GPUClass) -> NodeStates:
        """Return the nodes by what is free of their GPUs of a class."""
        return self._of_class(gpu_class).states(self._nodes)

    def _of_class(self, gpu_class: GPUClass) -> _ClassIndex:
        found = self._of.get(gpu_class)
        if found is None:
            found = self._of[gpu_class] = _ClassIndex()
        return found


def _discard(buckets: dict[int, list[int]], bucket: int, item: int) -> None:
    items = buckets[bucket]
    del items[bisect_left(items, item)]
    if not items:
        del buckets[bucket]
