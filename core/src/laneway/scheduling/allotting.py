"""How the elastic and the allocation stage are asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang, PlacedWorker, WorkerAllotment
from laneway.scheduling.books import Books
from laneway.scheduling.elastic.policy import ElasticPolicy, MalleableJob
from laneway.scheduling.snapshot import Job, JobState
from laneway.scheduling.walk import Decision

REALLOT_SECONDS = 60.0
"""How long an allotment stands at most while nobody comes or goes: Pollux's interval (OSDI'21, section 5.1)."""


class Allotting:
    """Asks the elastic policy when a malleable job has come or gone, and every so often."""

    def __init__(self, policy: ElasticPolicy) -> None:
        self._policy = policy
        self._asked_seconds = -math.inf
        self._asked_of: frozenset[str] = frozenset()

    def refresh(self, books: Books, now_seconds: float) -> None:
        """Note in the books how many workers each malleable job is to have."""
        malleable = {
            key: job for key, job in books.jobs.items() if job.demand.malleable and not job.suspended
        }
        if malleable.keys() == self._asked_of and now_seconds < self._asked_seconds + REALLOT_SECONDS:
            return
        self._asked_seconds, self._asked_of = now_seconds, frozenset(malleable)
        jobs = [_malleable_job(job, now_seconds) for job in malleable.values()]
        books.allot(self._policy.allot(jobs, _free_gpus(books, malleable), now_seconds) if jobs else {})

    def next_seconds(self) -> float:
        """Return when the policy is to be asked again; infinite: nobody is malleable."""
        return self._asked_seconds + REALLOT_SECONDS if self._asked_of else math.inf


def _malleable_job(job: Job, now_seconds: float) -> MalleableJob:
    held = () if job.state.makes_way else job.placement
    return MalleableJob(
        job.key,
        job.demand.fewest_workers,
        job.demand.most_workers,
        job.created_seconds,
        tuple(sorted(Counter(worker.node for worker in held).values(), reverse=True)),
        job.demand.gpus_per_worker,
        job.service_gpu_seconds(now_seconds),
        job.restarts,
        job.goodput,
        job.preemptible,
    )


def _free_gpus(books: Books, malleable: Mapping[str, Job]) -> dict[str, int]:
    """Return, by node, the GPUs that rigid jobs leave: those that hold some, and those that wait."""
    taken = {
        uuid
        for key, job in books.jobs.items()
        if key not in malleable
        for worker in job.placement
        for uuid in worker.gpus
    }
    free = {
        node.name: sum(
            gpu.healthy and not gpu.foreign and gpu.uuid not in taken for gpu in node.gpus if node.schedulable
        )
        for node in books.ledger.nodes
    }
    wanted = sum(
        job.demand.gpus
        for key, job in books.jobs.items()
        if key not in malleable
        and job.state is JobState.WAITING
        and not job.suspended
        and books.supply.unfit(job.demand, frozenset()) is None
    )
    for name in sorted(free, key=lambda name: (-free[name], name)):
        kept = min(wanted, free[name])
        free[name] -= kept
        wanted -= kept
    return free


def allocations(
    books: Books, order: Sequence[str], decision: Decision
) -> Mapping[str, tuple[WorkerAllotment, ...]]:
    """Return what CPUs and memory the workers of the jobs get that hold GPUs after a decision.

    Jobs on nodes whose CPUs or memory are not known are left out: they have what their pods ask for.
    """
    policy = books.policies.allocation
    if policy is None:
        return {}
    nodes = [
        NodeCapacity(
            node.name, sum(gpu.allocatable_percent for gpu in node.gpus), node.cpu_millis, node.memory_bytes
        )
        for node in books.ledger.nodes
        if node.gpus and node.cpu_millis and node.memory_bytes
    ]
    known = {node.node for node in nodes}
    gangs = []
    for position, key in enumerate(order):
        job = books.jobs[key]
        runs = job.state in (JobState.STARTING, JobState.RUNNING) and key not in decision.preemptions
        placement = decision.starts.get(key, job.placement if runs else ())
        workers = tuple(
            PlacedWorker(worker.worker, worker.node, worker.share_percent * len(worker.gpus))
            for worker in placement
        )
        if workers and all(worker.node in known for worker in workers):
            gangs.append(PlacedGang(key, workers, job.sensitivity, position))
    return policy.allot(nodes, gangs)
