"""Where host resources allow fewer workers than free GPUs do.

Most nodes have CPUs and memory for all of their GPUs. So a node is first compared with the largest requests per GPU that were
asked about; only the nodes that might run short are looked at for each request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from laneway.scheduling.model.host_resources import HostResources, workers_within

Left = Mapping[str, int]
NO_LIMITS: Mapping[int, int] = MappingProxyType({})

Look = Callable[[int], tuple[Left | None, int]]
"""Returns what a node has left (None: no limit), and how many of its GPUs have a free part."""

_Asked = tuple[HostResources, int]
"""The requests of a worker, and its number of GPUs."""


class HostLimits:
    """The exceptions in one view of the allocations."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._stale: set[int] = set()
        """Numbers of nodes with changes that are not looked at yet."""

        self._most_per_gpu: dict[str, int] = {}
        """By resource: the largest request that was asked about; empty: none was."""

        self._short: dict[int, tuple[Left, int]] = {}
        """The nodes that might run short by it: what is left, and how many GPUs have a free part."""

        self._changed: list[int] = []
        """Nodes that were or became such ones and have changed, in order of time."""

        self._limits: dict[_Asked, tuple[int, dict[int, int]]] = {}
        """Up to which change each answer is current; by node, the workers that fit."""

    @property
    def in_use(self) -> bool:
        """Whether anything was asked; else changes need not be noted."""
        return bool(self._most_per_gpu)

    def note(self, nodes: Iterable[int]) -> None:
        """Note that what these nodes have left may have changed."""
        self._stale.update(nodes)

    def of(self, requests: HostResources, gpus_per_worker: int, look: Look) -> Mapping[int, int]:
        """Return, by node, how many workers its host resources allow, where its free GPUs would allow more.

        Args:
            requests: of each worker; not empty.
            gpus_per_worker: of each worker.
            look: see :data:`Look`.
        """
        asked = (requests, gpus_per_worker)
        if asked not in self._limits:
            self._raise_to(requests, gpus_per_worker)
        if self._stale:
            self._look_again(look)
        if not self._short and not self._changed:
            self._limits.setdefault(asked, (0, {}))
            return NO_LIMITS
        seen, limits = self._limits.get(asked, (-1, {}))
        if seen < len(self._changed):
            for node in self._short if seen < 0 else set(self._changed[seen:]):
                limits.pop(node, None)
                left, gpus = self._short.get(node, ({}, 0))
                if gpus >= gpus_per_worker:
                    workers = workers_within(requests, left)
                    if workers < gpus // gpus_per_worker:
                        limits[node] = workers
            self._limits[asked] = (len(self._changed), limits)
        return limits

    def _raise_to(self, requests: HostResources, gpus_per_worker: int) -> None:
        """Compare the nodes with these requests from now on, where they are larger than all before."""
        for name, amount in requests.amounts:
            per_gpu = -(-amount // gpus_per_worker)
            if per_gpu > self._most_per_gpu.get(name, 0):
                self._most_per_gpu[name] = per_gpu
                self._stale = set(range(self._nodes))

    def _look_again(self, look: Look) -> None:
        most = self._most_per_gpu.items()
        for node in self._stale:
            left, gpus = look(node)
            is_short = left is not None and any(gpus * amount > left.get(name, 0) for name, amount in most)
            if is_short or node in self._short:
                self._changed.append(node)
            if is_short and left is not None:
                self._short[node] = (left, gpus)
            else:
                self._short.pop(node, None)
        self._stale.clear()
        if len(self._changed) > 4 * self._nodes + 64:  # counting again is cheaper than catching up
            self._changed.clear()
            self._limits.clear()
