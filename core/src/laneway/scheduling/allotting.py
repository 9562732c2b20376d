"""How the elastic and the allocation stage are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang, PlacedWorker, WorkerAllotment
from laneway.scheduling.books import Books
from laneway.scheduling.snapshot import JobState
from laneway.scheduling.walk import Decision

if TYPE_CHECKING:
    from laneway.scheduling.elastic.policy import ElasticPolicy


def allotted_workers(books: Books, elastic: ElasticPolicy, now_seconds: float) -> Mapping[str, int]:
    """Return how many workers each malleable job is to have."""
    return {}


def allocations(
    books: Books, order: Sequence[str], decision: Decision
) -> Mapping[str, tuple[WorkerAllotment, ...]]:
    """Return what CPUs and memory the workers of the jobs get that hold GPUs after a decision."""
    policy = books.policies.allocation
    if policy is None:
        return {}
    nodes = [
        NodeCapacity(
            node.name, sum(gpu.allocatable_percent for gpu in node.gpus), node.cpu_millis, node.memory_bytes
        )
        for node in books.ledger.nodes
        if node.gpus
    ]
    gangs = []
    for position, key in enumerate(order):
        job = books.jobs[key]
        runs = job.state in (JobState.STARTING, JobState.RUNNING) and key not in decision.preemptions
        placement = decision.starts.get(key, job.placement if runs else ())
        workers = tuple(
            PlacedWorker(worker.worker, worker.node, worker.share_percent * len(worker.gpus))
            for worker in placement
        )
        if workers:
            gangs.append(PlacedGang(key, workers, job.sensitivity, position))
    return policy.allot(nodes, gangs)
