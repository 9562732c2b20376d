"""Indexes over the free percent of GPUs, so that placing a job does not walk all of them.

GPUs and nodes are numbered in the order of (node, index, uuid) and of node names; numbers make ties fall the same way
whatever the order of the snapshot's lists.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from laneway.scheduling.suitability import GPUClass


class NodeCounts:
    """Of one class: how many GPUs of each node have at least so much free, and the nodes by that number."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self.nodes: dict[int, list[int]] = {}
        """By number of GPUs (never 0): the nodes that have so many, in order."""

    def change(self, node: int, by: int) -> None:
        """Count ``by`` more GPUs of a node."""
        before = self.of.get(node, 0)
        after = before + by
        if before:
            _discard(self.nodes, before, node)
        if after:
            insort(self.nodes.setdefault(after, []), node)
        self.of[node] = after


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
        self._classes = classes
        self._nodes = nodes
        self._free = dict(free_percent)
        self._levels: dict[GPUClass, dict[int, list[int]]] = defaultdict(dict)
        self._watched: dict[GPUClass, dict[int, NodeCounts]] = defaultdict(dict)
        self._free_sum: dict[GPUClass, int] = defaultdict(int)
        for gpu, percent in self._free.items():
            self._free_sum[classes[gpu]] += percent
            self._levels[classes[gpu]].setdefault(percent, []).append(gpu)

    def update(self, gpu: int, percent: int) -> None:
        """Note how much of a GPU is free now; GPUs that are not in the index are left out."""
        before = self._free.get(gpu)
        if before is None or before == percent:
            return
        gpu_class = self._classes[gpu]
        self._free[gpu] = percent
        self._free_sum[gpu_class] += percent - before
        _discard(self._levels[gpu_class], before, gpu)
        insort(self._levels[gpu_class].setdefault(percent, []), gpu)
        for threshold, counts in self._watched[gpu_class].items():
            if (before >= threshold) != (percent >= threshold):
                counts.change(self._nodes[gpu], 1 if percent >= threshold else -1)

    def fullest(self, gpu_class: GPUClass, at_least_percent: int) -> Iterator[int]:
        """Yield the GPUs of a class with at least so much free, the least free first."""
        levels = self._levels[gpu_class]
        for level in sorted(levels):
            if level >= at_least_percent:
                yield from levels[level]

    def free_sum(self, gpu_class: GPUClass) -> int:
        """Return the free percent of all GPUs of a class together."""
        return self._free_sum[gpu_class]

    def most_free(self, gpu_class: GPUClass) -> int:
        """Return the free percent of the emptiest GPU of a class; 0 where there is none."""
        return max(self._levels[gpu_class], default=0)

    def counts(self, gpu_class: GPUClass, at_least_percent: int) -> NodeCounts:
        """Return, by node, how many GPUs of a class have at least so much free; kept current from then on."""
        watched = self._watched[gpu_class]
        if at_least_percent not in watched:
            counts = watched[at_least_percent] = NodeCounts()
            for gpu in sorted(self.fullest(gpu_class, at_least_percent)):
                counts.change(self._nodes[gpu], 1)
        return watched[at_least_percent]


def _discard(buckets: dict[int, list[int]], bucket: int, item: int) -> None:
    items = buckets[bucket]
    del items[bisect_left(items, item)]
    if not items:
        del buckets[bucket]
