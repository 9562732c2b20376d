"""The GPUs that may be given to jobs: healthy ones on schedulable nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.snapshot import GPU, Node


class UsableGPUs:
    """GPUs by number, node and class."""

    def __init__(self, classes: Sequence[GPUClass], gpus_of_node: Sequence[tuple[int, ...]]) -> None:
        """Start with none.

        Args:
            classes: by the number of a GPU.
            gpus_of_node: by the number of a node, the numbers of its GPUs.
        """
        self.numbers: set[int] = set()
        self.classes: tuple[GPUClass, ...] = ()
        """The classes of these GPUs, rising."""

        self._classes = classes
        self._gpus_of_node = gpus_of_node
        self._on: list[dict[GPUClass, tuple[int, ...]]] = [{} for _ in gpus_of_node]

    def on(self, node: int, gpu_class: GPUClass) -> tuple[int, ...]:
        """Return the usable GPUs of a node and class, in rising order."""
        return self._on[node].get(gpu_class, ())

    def note(self, which: Iterable[int], nodes: Sequence[Node], gpus: Sequence[GPU]) -> bool:
        """Check some nodes again, given by their numbers; return whether the usable GPUs changed."""
        same = True
        for node in which:
            there = self._gpus_of_node[node]
            usable = {number for number in there if nodes[node].schedulable and gpus[number].healthy}
            same = same and usable == self.numbers.intersection(there)
            self.numbers.difference_update(there)
            self.numbers |= usable
            self._on[node] = {
                gpu_class: tuple(
                    number for number in there if number in usable and self._classes[number] is gpu_class
                )
                for gpu_class in {self._classes[number] for number in there}
            }
        if not same:
            self.classes = tuple(sorted({self._classes[number] for number in self.numbers}))
        return not same
