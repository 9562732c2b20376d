"""The nodes as they are and as the scheduler knows them: what pods request of them, and which have failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from laneway.scheduling import HostResources, Node, WorkerPlacement
from laneway.scheduling.model.host_resources import add, workers_within
from laneway.simulator.trace import TraceJob


class HostPods:
    """The host resources that the nodes' pods request, as kube-scheduler counts them."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._left = {node.name: dict(node.host.amounts) for node in nodes if node.host is not None}
        self._bound: dict[str, tuple[TraceJob, Counter[str]]] = {}
        self._unseen: dict[str, dict[str, int]] = {}
        """By node: what its pods request beyond what the scheduler knows of their jobs."""

    def bind(self, job: TraceJob, placement: Sequence[WorkerPlacement]) -> frozenset[str]:
        """Bind the workers of a job that fit, and return the nodes that refuse some of them."""
        requests = job.pod_requests
        if not requests:
            return frozenset()
        refused = set()
        workers: Counter[str] = Counter(worker.node for worker in placement if worker.node in self._left)
        for node, wanted in workers.items():
            fitting = min(wanted, workers_within(requests, self._left[node]))
            if fitting < wanted:
                refused.add(node)
            workers[node] = fitting
            self._add(job, node, fitting)
        self._bound[job.key] = (job, workers)
        return frozenset(refused)

    def remove(self, key: str) -> Collection[str]:
        """Remove the pods of a job, and return the nodes on which they were."""
        if key not in self._bound:
            return ()
        job, workers = self._bound.pop(key)
        for node, number in workers.items():
            self._add(job, node, -number)
        return [node for node, number in workers.items() if number]

    def as_known(self, node: Node) -> Node:
        """Return a node as the scheduler knows it: the operator counts what running pods request beyond their template."""
        if node.host is None or node.name not in self._unseen:
            return node
        left = dict(node.host.amounts)
        for name, amount in self._unseen[node.name].items():
            left[name] = left.get(name, 0) - amount
        return replace(node, host=HostResources.of(left))

    def _add(self, job: TraceJob, node: str, workers: int) -> None:
        add(self._left[node], job.pod_requests, -workers)
        if job.unseen_requests:
            add(self._unseen.setdefault(node, {}), job.unseen_requests, workers)


class Nodes:
    """All nodes of a simulation. What changes is shown to the scheduler by :meth:`take_changed`."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Start with empty nodes, all of them up."""
        self._nodes = tuple(nodes)
        self._pods = HostPods(self._nodes)
        self._up_at_seconds: dict[str, float] = {}
        """By failed node: when it is up again."""

        self._not_ready: set[str] = set()
        self._changed = False

    def bind(self, job: TraceJob, placement: Sequence[WorkerPlacement]) -> frozenset[str]:
        """Bind the workers of a job that kube-scheduler lets pass, and return the nodes that refuse some of them."""
        self._changed |= bool(job.unseen_requests)
        return self._pods.bind(job, placement)

    def remove(self, job: TraceJob) -> Collection[str]:
        """Remove the pods of a job, and return the nodes that have more for others since."""
        self._changed |= bool(job.unseen_requests)
        return self._pods.remove(job.key)

    def fail(self, node: str, up_seconds: float) -> None:
        """Note that a node has failed, and when it will be up."""
        self._up_at_seconds[node] = up_seconds

    def miss(self, node: str) -> None:
        """Note that a node that has failed is not ready by now."""
        if node in self._up_at_seconds:
            self._not_ready.add(node)
            self._changed = True

    def come_back(self, node: str) -> None:
        """Note that a node is up again."""
        del self._up_at_seconds[node]
        self._not_ready.discard(node)
        self._changed = True

    def down(self, placement: Sequence[WorkerPlacement]) -> list[str]:
        """Return the failed nodes of a placement."""
        return [worker.node for worker in placement if worker.node in self._up_at_seconds]

    def down_seconds(self, placement: Sequence[WorkerPlacement], now_seconds: float) -> float:
        """Return the time until all nodes of a placement are up."""
        ups = [self._up_at_seconds.get(worker.node, 0.0) for worker in placement]
        return max(0.0, max(ups) - now_seconds)

    def take_changed(self) -> Sequence[Node] | None:
        """Return all nodes as the scheduler is to know them; None: as it knows them already."""
        if not self._changed:
            return None
        self._changed = False
        known = map(self._pods.as_known, self._nodes)
        return [
            replace(node, schedulable=False, reason="it is not ready")
            if node.name in self._not_ready
            else node
            for node in known
        ]
