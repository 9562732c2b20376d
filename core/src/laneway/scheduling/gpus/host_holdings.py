"""What the jobs' pods request of each node beside GPUs, and how much of it the node still has."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from laneway.scheduling.gpus.allocation import Allocation, AllocationStatus
from laneway.scheduling.gpus.host_limits import Left
from laneway.scheduling.gpus.views import View
from laneway.scheduling.model.host_resources import HostResources, add, workers_within
from laneway.scheduling.model.plan import PreemptionAction
from laneway.scheduling.model.snapshot import Node


class HostHoldings:
    """The workers on each node, of jobs whose pods request anything. Nodes are given by their numbers."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._offered = [_amounts(node.host) for node in nodes]
        self._capacity = [_amounts(node.host_capacity) for node in nodes]
        self._on: list[dict[str, tuple[int, Allocation]]] = [{} for _ in nodes]
        self.limits = any(each is not None for each in self._offered)
        """Whether any node limits the workers there."""

    def renew(self, number: int, node: Node) -> None:
        """Apply a change of a node."""
        self._offered[number] = _amounts(node.host)
        self._capacity[number] = _amounts(node.host_capacity)
        self.limits |= node.host is not None

    def add(self, entry: Allocation) -> None:
        """Let a job hold what its workers request."""
        for node, workers in entry.on_nodes:
            self._on[node][entry.job.key] = (workers, entry)

    def remove(self, entry: Allocation) -> None:
        """Take it back."""
        for node, _ in entry.on_nodes:
            del self._on[node][entry.job.key]

    def on(self, node: int) -> Mapping[str, tuple[int, Allocation]]:
        """Return the jobs that hold anything of a node, each with its workers there."""
        return self._on[node]

    def most_workers(self, node: int, requests: HostResources) -> float:
        """Return how many workers with these requests a node could take if no job were there."""
        return _workers_within(requests, self._offered[node])

    def most_workers_alone(self, node: int, requests: HostResources) -> float:
        """Return how many workers with these requests a node could take if no pod at all were there."""
        return _workers_within(requests, self.left_alone(node))

    def left_alone(self, node: int) -> Left | None:
        """Return what a node would have if no pod at all were there."""
        capacity = self._capacity[node]
        return self._offered[node] if capacity is None else capacity

    def offered(self, node: int) -> Left | None:
        """Return what a node has for jobs beside the other pods; less than 0 where these request more than there is."""
        return self._offered[node]

    def left_on(self, node: int, view: View) -> Left | None:
        """Return what of it no job takes in a view; less than 0 where more is taken than there is."""
        offered, held = self._offered[node], self._on[node]
        if offered is None or not held:
            return offered
        left = dict(offered)
        releasing: dict[str, int] = {}
        pipelined: dict[str, int] = {}
        for workers, entry in held.values():
            requests, status = entry.job.demand.requests, entry.status
            if status is AllocationStatus.PIPELINED:
                add(pipelined, requests, workers)
            elif status is AllocationStatus.RELEASING and entry.action is PreemptionAction.EVICT:
                add(releasing, requests, workers)
            elif status is AllocationStatus.RELEASING or view.counts(entry.level):
                add(left, requests, -workers)  # a paused job keeps its pods
        if pipelined or (view.idle and releasing):
            for name in left:
                taken = max(releasing.get(name, 0) if view.idle else 0, pipelined.get(name, 0))
                left[name] -= taken
        return left


def _amounts(resources: HostResources | None) -> Left | None:
    return None if resources is None else dict(resources.amounts)


def _workers_within(requests: HostResources, left: Left | None) -> float:
    return math.inf if left is None or not requests else workers_within(requests, left)
