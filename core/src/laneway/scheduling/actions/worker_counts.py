"""Asks the elastic policy how many workers each malleable job gets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from laneway.scheduling.elastic.policy import ElasticPolicy, MalleableJob
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.state.scheduler_state import SchedulerState

REALLOT_SECONDS = 60.0
"""The longest time between two calls of the policy while no job comes or goes: Pollux's interval (OSDI'21, section 5.1)."""


class WorkerCounts:
    """Calls the policy when a malleable job comes or goes, and after ``REALLOT_SECONDS``."""

    def __init__(self, policy: ElasticPolicy) -> None:
        self._policy = policy
        self._asked_seconds = -math.inf
        self._asked_of: dict[str, tuple[int, int, frozenset[int]]] = {}

    def refresh(self, state: SchedulerState, now_seconds: float) -> None:
        """Note in the state how many workers each malleable job gets."""
        malleable = {
            key: job for key, job in state.jobs.items() if job.demand.malleable and not job.suspended
        }
        ranges = {
            key: (job.demand.fewest_workers, job.demand.most_workers, job.avoided_workers)
            for key, job in malleable.items()
        }
        if ranges == self._asked_of and now_seconds < self._asked_seconds + REALLOT_SECONDS:
            return
        self._asked_seconds, self._asked_of = now_seconds, ranges
        jobs = [_malleable_job(state, job, now_seconds) for job in malleable.values()]
        free_gpus = _free_gpus(state, malleable)
        chosen = self._policy.allot(jobs, free_gpus, now_seconds) if jobs else {}
        workers = {job.key: _without_failures(job, chosen[job.key]) for job in jobs}
        state.set_worker_counts(workers, sum(free_gpus.values()))

    def next_seconds(self) -> float:
        """Return when the policy is called next; infinite: no job is malleable."""
        return self._asked_seconds + REALLOT_SECONDS if self._asked_of else math.inf


def _malleable_job(state: SchedulerState, job: Job, now_seconds: float) -> MalleableJob:
    held = () if job.state.is_releasing else job.placement
    return MalleableJob(
        job.key,
        job.demand.fewest_workers,
        _most_workers(state, job, now_seconds),
        job.created_seconds,
        tuple(sorted(Counter(worker.node for worker in held).values(), reverse=True)),
        job.demand.gpus_per_worker,
        job.service_gpu_seconds(now_seconds),
        job.restarts,
        job.goodput,
        job.explored_workers,
        job.rescale_seconds,
        job.preemptible,
        job.avoided_workers,
    )


def _without_failures(job: MalleableJob, workers: int) -> int:
    """Return the number that a policy has chosen, or the next smaller one with which the job does not fail; it has what it has if there is none."""
    if workers not in job.avoided_workers:
        return workers
    smaller = (
        each for each in range(workers - 1, job.min_workers - 1, -1) if each not in job.avoided_workers
    )
    return next(smaller, job.workers)


def _most_workers(state: SchedulerState, job: Job, now_seconds: float) -> int:
    """Return the most workers that a job may have by its demand, the nodes that it may use, and the quota of its namespace."""
    held = 0 if job.state.is_releasing else len(job.placement)
    avoided = state.avoided.get(job.key, frozenset())

    def may_have(workers: int) -> bool:
        if workers <= held:
            return True
        if (
            state.cluster_capacity.unschedulable_reason(waiting_with(job, workers).demand, avoided)
            is not None
        ):
            return False
        further = waiting_with(job, workers - held)
        return all(
            policy.refusal(further, state.capacity(IDLE), now_seconds) is None
            for policy in state.policies.admission
        )

    few, most = job.demand.fewest_workers, job.demand.most_workers
    while few < most:
        middle = (few + most + 1) // 2
        few, most = (middle, most) if may_have(middle) else (few, middle - 1)
    return few


def waiting_with(job: Job, workers: int) -> Job:
    """Return a job as it would wait with a number of workers."""
    demand = replace(job.demand, workers=workers, min_workers=None, max_workers=None)
    return replace(job, state=JobState.WAITING, placement=(), demand=demand)


def _free_gpus(state: SchedulerState, malleable: Mapping[str, Job]) -> dict[str, int]:
    """Return, by node, the GPUs that rigid jobs neither hold nor wait for."""
    taken = {
        uuid
        for key, job in state.jobs.items()
        if key not in malleable
        for worker in job.placement
        for uuid in worker.gpus
    }
    free = {
        node.name: sum(
            gpu.healthy and not gpu.foreign and gpu.uuid not in taken for gpu in node.gpus if node.schedulable
        )
        for node in state.allocations.nodes
    }
    wanted = sum(
        job.demand.gpus
        for key, job in state.jobs.items()
        if key not in malleable
        and job.state is JobState.WAITING
        and not job.suspended
        and state.cluster_capacity.unschedulable_reason(job.demand, frozenset()) is None
    )
    for name in sorted(free, key=lambda name: (-free[name], name)):
        kept = min(wanted, free[name])
        free[name] -= kept
        wanted -= kept
    return free
