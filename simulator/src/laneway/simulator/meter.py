"""Counts held GPUs and jobs, and integrates them over time."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.scheduling import JobState, Node, WorkerPlacement
from laneway.scheduling.model.gpu_class import class_of
from laneway.simulator.fragmentation import Fragmentation
from laneway.simulator.history import Sample


class Meter:
    """Counts held GPUs and jobs as they change, and integrates them over time."""

    def __init__(self, nodes: Sequence[Node], fragmentation: Fragmentation) -> None:
        """Start with an empty cluster at time 0."""
        self.held_gpu_seconds = 0.0
        """Starting and leaving jobs hold their GPUs too; a GPU that is held more than once counts once."""

        self.contended_free_gpu_seconds = 0.0
        """Free while a job waited."""

        self.contended_fragment_gpu_seconds = 0.0
        """The part of it that was unusable where it was (see ``fragmentation``)."""

        self.waiting_jobs = 0
        self.running_jobs = 0
        self._now_seconds = 0.0
        self._offered = {gpu.uuid: gpu.allocatable_percent for node in nodes for gpu in node.gpus}
        self._free_percents = {node.name: [gpu.allocatable_percent for gpu in node.gpus] for node in nodes}
        """By node: the free percent of each GPU."""

        self._slots = {
            gpu.uuid: (self._free_percents[node.name], number)
            for node in nodes
            for number, gpu in enumerate(node.gpus)
        }
        self._held_percent = 0
        """Sum over the GPUs of the held percent of each, at most 100."""

        self._free_gpus = float(len(self._offered))
        self._fragmentation = {
            node.name: fragmentation.of_nodes_like(tuple(map(class_of, node.gpus))) for node in nodes
        }
        self._fragments = {name: self._fragment(name) for name in self._free_percents}
        self._fragment_gpus = sum(self._fragments.values())
        self._changed_nodes: dict[str, None] = {}

    @property
    def gpus(self) -> int:
        """The number of GPUs of the cluster."""
        return len(self._offered)

    @property
    def held_gpus(self) -> float:
        """The GPUs held now, in fractions; a GPU that is held more than once counts once."""
        return self._held_percent / 100

    def advance(self, to_seconds: float) -> None:
        """Integrate the current state up to a time."""
        elapsed = to_seconds - self._now_seconds
        self._now_seconds = to_seconds
        self.held_gpu_seconds += self.held_gpus * elapsed
        if self.waiting_jobs:
            self._refresh()
            self.contended_free_gpu_seconds += self._free_gpus * elapsed
            self.contended_fragment_gpu_seconds += self._fragment_gpus * elapsed

    def hold(self, placement: Sequence[WorkerPlacement], *, sign: int = 1) -> None:
        """Count a placement as held; with sign -1, as released."""
        for worker in placement:
            self._changed_nodes[worker.node] = None
            percent = sign * worker.share_percent
            for uuid in worker.gpus:
                offered = self._offered[uuid]
                free, number = self._slots[uuid]
                before = offered - free[number]
                after = before + percent
                free[number] = offered - after
                self._held_percent += min(after, 100) - min(before, 100)
                self._free_gpus += (before - after) / offered

    def count(self, state: JobState, by: int) -> None:
        """Count one more job, or with -1 one less, in a state."""
        if state is JobState.WAITING:
            self.waiting_jobs += by
        elif state in (JobState.STARTING, JobState.RUNNING, JobState.TERMINATING):
            self.running_jobs += by

    def sample(self) -> Sample:
        """Return the current state of the cluster."""
        return Sample(self._now_seconds, self.waiting_jobs, self.running_jobs, self.held_gpus)

    def _refresh(self) -> None:
        for name in self._changed_nodes:
            fragment_gpus = self._fragment(name)
            self._fragment_gpus += fragment_gpus - self._fragments[name]
            self._fragments[name] = fragment_gpus
        self._changed_nodes.clear()

    def _fragment(self, name: str) -> float:
        return self._fragmentation[name].fragment_gpus(tuple(self._free_percents[name]))
