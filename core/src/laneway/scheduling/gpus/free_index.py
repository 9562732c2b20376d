"""Indexes GPUs by free percent, so that placing a job does not visit all of them.

GPUs and nodes are numbered in the order of (node, index, uuid) and of node names; numbers break ties independently of the
order of the snapshot's lists.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from laneway.scheduling.gpus.node_states import NodeStates
from laneway.scheduling.model.gpu_class import GPUClass

Change = tuple[int, int, int]
"""A GPU's number, and its free percent before and after."""


class NodeCounts:
    """The GPUs of one class with at least some free percent: their number by node, and the nodes by that number."""

    def __init__(self, nodes: Iterable[int]) -> None:
        """Count the GPUs that are given by the numbers of their nodes."""
        self.of: dict[int, int] = dict(Counter(nodes))
        self.nodes: dict[int, list[int]] = {}
        """By number of GPUs (never 0): the nodes with that many, in order."""

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

    def limited(self, most_workers: Mapping[int, int], gpus_per_worker: int) -> dict[int, list[int]]:
        """Return :attr:`nodes` where some nodes, given with their limits, take a limited number of workers."""
        fewer = {
            node: workers * gpus_per_worker
            for node, workers in most_workers.items()
            if workers * gpus_per_worker < self.of.get(node, 0)
        }
        nodes = dict(self.nodes)
        for gpus in {self.of[node] for node in fewer}:
            nodes[gpus] = [node for node in nodes[gpus] if node not in fewer]
        for gpus in set(fewer.values()):
            nodes[gpus] = sorted(
                [*nodes.get(gpus, ()), *(node for node, count in fewer.items() if count == gpus)]
            )
        return {gpus: there for gpus, there in nodes.items() if gpus and there}


class ClassIndex:
    """The GPUs of one class by free percent.

    Lists by free percent and counts by node catch up with changes when they are used, so unused ones cost nothing.
    """

    def __init__(self) -> None:
        self.sizes: dict[int, int] = {}
        """Number of GPUs by free percent."""

        self.free_sum = 0
        self._gpus = 0
        self._changes: list[Change] = []
        self._levels: tuple[int, dict[int, list[int]]] = (0, {})
        self._counts: dict[int, tuple[int, NodeCounts]] = {}
        self._states: tuple[int, NodeStates] | None = None

    @property
    def most_free(self) -> int:
        """The free percent of the emptiest GPU; 0 where there is none."""
        return max(self.sizes, default=0)

    def add(self, gpu: int, percent: int) -> None:
        """Enter a GPU, in rising order of numbers."""
        self._levels[1].setdefault(percent, []).append(gpu)
        self.sizes[percent] = self.sizes.get(percent, 0) + 1
        self.free_sum += percent
        self._gpus += 1

    def move(self, gpu: int, before: int, after: int) -> None:
        """Note what is free of a GPU now."""
        self.free_sum += after - before
        sizes = self.sizes
        if sizes[before] == 1:
            del sizes[before]
        else:
            sizes[before] -= 1
        sizes[after] = sizes.get(after, 0) + 1
        self._changes.append((gpu, before, after))
        if len(self._changes) > 2 * self._gpus + 16:  # counting again is cheaper than catching up
            self.levels()
            self._levels = (0, self._levels[1])
            self._changes.clear()
            self._counts.clear()
            self._states = None

    def levels(self) -> dict[int, list[int]]:
        """Return the GPUs by free percent, in order of numbers, as of now."""
        seen, levels = self._levels
        if seen < len(self._changes):
            first: dict[int, int] = {}
            last: dict[int, int] = {}
            for gpu, before, after in self._changes[seen:]:
                first.setdefault(gpu, before)
                last[gpu] = after
            for gpu, before in first.items():
                if before != last[gpu]:
                    _discard(levels, before, gpu)
                    insort(levels.setdefault(last[gpu], []), gpu)
            self._levels = (len(self._changes), levels)
        return levels

    def counts(self, at_least_percent: int, nodes: Sequence[int]) -> NodeCounts:
        """Return, by node, how many GPUs have at least this much free now."""
        most = self.most_free
        if at_least_percent < most and not any(at_least_percent <= level < most for level in self.sizes):
            at_least_percent = most  # all shares then need empty GPUs
        seen, counts = self._counts.get(at_least_percent, (0, None))
        if counts is None:
            counts = NodeCounts(
                nodes[gpu] for level, at in self.levels().items() if level >= at_least_percent for gpu in at
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
        else:
            return counts
        self._counts[at_least_percent] = (len(self._changes), counts)
        return counts

    def states(self, nodes: Sequence[int]) -> NodeStates:
        """Return the nodes by what is free of their GPUs, as of now."""
        if self._states is None:
            states = NodeStates((nodes[gpu], level) for level, at in self.levels().items() for gpu in at)
        else:
            seen, states = self._states
            for gpu, before, after in self._changes[seen:]:
                states.move(nodes[gpu], before, after)
        self._states = (len(self._changes), states)
        return states


class FreeIndex:
    """GPUs by class and free percent."""

    def __init__(
        self,
        classes: Sequence[GPUClass],
        nodes: Sequence[int],
        pools: Sequence[int],
        free_percent: Mapping[int, int],
    ) -> None:
        """Index the GPUs that ``free_percent`` names.

        Args:
            classes: by GPU number; equal ones are one object.
            nodes: by GPU number: the number of its node.
            pools: by GPU number: the number of its pool.
            free_percent: by GPU number, in rising order.
        """
        self._nodes = nodes
        self._of: dict[GPUClass, ClassIndex] = {gpu_class: ClassIndex() for gpu_class in set(classes)}
        self.home: list[ClassIndex | None] = [None] * len(classes)
        """By GPU number: the index of its class; None where it is not in this one."""

        self.free: list[int] = [0] * len(classes)
        """By GPU number: what is free of it; 0 where it is not in the index."""

        self.of_pool: list[int] = [0] * (max(pools, default=-1) + 1)
        """By the number of a pool: what is free of its GPUs together."""

        for gpu, percent in free_percent.items():
            self.of_pool[pools[gpu]] += percent
            home = self.home[gpu] = self._of[classes[gpu]]
            home.add(gpu, percent)
            self.free[gpu] = percent

    def fullest(self, gpu_class: GPUClass, at_least_percent: int) -> Iterator[int]:
        """Yield the GPUs of a class with at least this much free, the least free first."""
        levels = self.of_class(gpu_class).levels()
        for level in sorted(level for level in levels if level >= at_least_percent):
            yield from levels[level]

    def emptiest(self, gpu_class: GPUClass, at_least_percent: int) -> Iterator[int]:
        """Yield what :meth:`fullest` does, the most free first."""
        levels = self.of_class(gpu_class).levels()
        for level in sorted((level for level in levels if level >= at_least_percent), reverse=True):
            yield from levels[level]

    def counts(self, gpu_class: GPUClass, at_least_percent: int) -> NodeCounts:
        """Return, by node, how many GPUs of a class have at least this much free."""
        return self.of_class(gpu_class).counts(at_least_percent, self._nodes)

    def states(self, gpu_class: GPUClass) -> NodeStates:
        """Return the nodes by what is free of their GPUs of a class."""
        return self.of_class(gpu_class).states(self._nodes)

    def of_class(self, gpu_class: GPUClass) -> ClassIndex:
        """Return the index of the GPUs of one class."""
        found = self._of.get(gpu_class)
        if found is None:
            found = self._of[gpu_class] = ClassIndex()
        return found


def _discard(buckets: dict[int, list[int]], bucket: int, item: int) -> None:
    items = buckets[bucket]
    del items[bisect_left(items, item)]
    if not items:
        del buckets[bucket]
