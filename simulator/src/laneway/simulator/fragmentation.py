"""The part of a node's free GPUs that the jobs of a trace cannot use (fragmentation gradient descent, ATC'23, section 3).

For one kind of worker, a node's fragment is its free capacity on GPUs that cannot take such a worker, or all of its free capacity if
the node cannot take one at all. The node's fragmentation is the mean over the trace's workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from laneway.scheduling import Demand
from laneway.scheduling.model.gpu_class import GPUClass, accepts_model, share_needed

MOST_KINDS = 32
"""The number of kinds of workers that count: the most frequent ones of the trace. The others are few."""


class Fragmentation:
    """Fragments of nodes, by the free percent of their GPUs."""

    def __init__(self, demands: Iterable[Demand]) -> None:
        """Take the workload.

        Args:
            demands: of each job of the trace.
        """
        kinds: Counter[tuple[int, int, int | None, bool, frozenset[str]]] = Counter()
        samples: dict[object, Demand] = {}
        for demand in demands:
            kind = (
                demand.gpus_per_worker,
                demand.share_percent,
                demand.memory_bytes,
                demand.exclusive,
                demand.models,
            )
            kinds[kind] += demand.workers
            samples.setdefault(kind, demand)
        chosen = kinds.most_common(MOST_KINDS)
        total = sum(count for _, count in chosen)
        self._kinds = [(samples[kind], count / total) for kind, count in chosen]
        self._shares: dict[tuple[int, GPUClass], int | None] = {}
        self._of: dict[tuple[GPUClass, ...], NodeFragmentation] = {}

    def fragment_gpus(self, classes: tuple[GPUClass, ...], free_percents: tuple[int, ...]) -> float:
        """Return a node's free but unusable GPUs, for the mean worker of the trace.

        Args:
            classes: of the node's GPUs.
            free_percents: of each, out of its allocatable percent.
        """
        return self.of_nodes_like(classes).fragment_gpus(free_percents)

    def of_nodes_like(self, classes: tuple[GPUClass, ...]) -> NodeFragmentation:
        """Return the cached fragments of nodes with GPUs of these classes."""
        found = self._of.get(classes)
        if found is None:
            found = self._of[classes] = NodeFragmentation(self, classes)
        return found

    def compute(self, classes: tuple[GPUClass, ...], free_percents: tuple[int, ...]) -> float:
        """Return the same as :meth:`fragment_gpus`, uncached."""
        return sum(
            weight * self._fragment(number, demand, classes, free_percents)
            for number, (demand, weight) in enumerate(self._kinds)
        )

    def _fragment(
        self, number: int, demand: Demand, classes: Sequence[GPUClass], free_percents: Sequence[int]
    ) -> float:
        free_gpus = usable_gpus = 0.0
        slots: Counter[GPUClass] = Counter()
        for gpu_class, free_percent in zip(classes, free_percents, strict=True):
            part = free_percent / gpu_class.allocatable_percent
            free_gpus += part
            needed = self._share(number, demand, gpu_class)
            if needed is not None and needed <= free_percent:
                usable_gpus += part
                slots[gpu_class] += 1
        fits = any(count >= demand.gpus_per_worker for count in slots.values())
        return free_gpus - usable_gpus if fits else free_gpus

    def _share(self, number: int, demand: Demand, gpu_class: GPUClass) -> int | None:
        key = (number, gpu_class)
        if key not in self._shares:
            suits = accepts_model(demand, gpu_class.model)
            self._shares[key] = share_needed(demand, gpu_class) if suits else None
        return self._shares[key]


class NodeFragmentation:
    """The fragments of nodes with GPUs of the same classes, cached."""

    def __init__(self, fragmentation: Fragmentation, classes: tuple[GPUClass, ...]) -> None:
        self._fragmentation = fragmentation
        self._classes = classes
        self._known: dict[tuple[int, ...], float] = {}

    def fragment_gpus(self, free_percents: tuple[int, ...]) -> float:
        """Return a node's free but unusable GPUs, given the free percent of each of its GPUs."""
        known = self._known.get(free_percents)
        if known is None:
            known = self._known[free_percents] = self._fragmentation.compute(self._classes, free_percents)
        return known
