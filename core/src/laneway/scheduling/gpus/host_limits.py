"""Where host resources allow fewer workers than free GPUs do.

Most nodes have CPUs and memory for all of their GPUs, so only the exceptions are kept, for each request that was asked about. A
change of a node costs something only for the requests that are asked about again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from laneway.scheduling.model.host_resources import HostResources, workers_within

Left = Mapping[str, int]
NO_LIMITS: Mapping[int, int] = MappingProxyType({})

_Asked = tuple[HostResources, int]
"""The requests of a worker, and its number of GPUs."""


class HostLimits:
    """The exceptions in one view of the allocations."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._changed: list[int] = []
        """Numbers of nodes with changes, in order of time."""

        self._limits: dict[_Asked, tuple[int, dict[int, int]]] = {}
        """Up to which change each answer is current; by node, the workers that fit."""

        self._known: dict[int, tuple[Left | None, int]] = {}
        """By node: what is left for requests, and how many GPUs have a free part."""

    @property
    def in_use(self) -> bool:
        """Whether anything was asked; else changes need not be noted."""
        return bool(self._limits)

    def note(self, nodes: set[int]) -> None:
        """Note that what these nodes have left may have changed."""
        for node in nodes:
            self._known.pop(node, None)
        self._changed.extend(sorted(nodes))
        if len(self._changed) > 4 * self._nodes + 64:  # counting again is cheaper than catching up
            self._changed.clear()
            self._limits.clear()
            self._known.clear()

    def of(
        self, requests: HostResources, gpus_per_worker: int, look: Callable[[int], tuple[Left | None, int]]
    ) -> Mapping[int, int]:
        """Return, by node, how many workers its host resources allow, where its free GPUs would allow more.

        Args:
            requests: of each worker; not empty.
            gpus_per_worker: of each worker.
            look: returns what a node has left (None: no limit), and how many of its GPUs have a free part.
        """
        asked = (requests, gpus_per_worker)
        seen, limits = self._limits.get(asked, (-1, {}))
        if seen < len(self._changed):
            for node in range(self._nodes) if seen < 0 else set(self._changed[seen:]):
                known = self._known.get(node)
                if known is None:
                    known = self._known[node] = look(node)
                left, gpus = known
                limits.pop(node, None)
                if left is not None and gpus >= gpus_per_worker:
                    workers = workers_within(requests, left)
                    if workers < gpus // gpus_per_worker:
                        limits[node] = workers
            self._limits[asked] = (len(self._changed), limits)
        return limits
