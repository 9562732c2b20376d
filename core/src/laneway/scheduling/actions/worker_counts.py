"""Asks the elastic policy how many workers each elastic job gets."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from laneway.scheduling.actions.elastic_pools import ElasticGPUs, with_gpus
from laneway.scheduling.elastic.policy import ElasticJob, ElasticPolicy
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.plan import PolicyFailure
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.order.remaining import demanded_gpus
from laneway.scheduling.state.scheduler_state import SchedulerState

REALLOT_SECONDS = 60.0
"""The longest time between two calls of the policy while no job comes or goes: Pollux's interval (OSDI'21, section 5.1)."""

RIGID_SECONDS = 5.0
"""The shortest time between two calls because rigid jobs come and go: a stream of them would cost a call each, of 0.3 s with 200 elastic
jobs."""


class WorkerCounts:
    """Calls the policy when an elastic job comes or goes, soon after a rigid one does, and after ``REALLOT_SECONDS``."""

    def __init__(self, policy: ElasticPolicy) -> None:
        self._policy = policy
        self._asked_seconds = -math.inf
        self._due_seconds = math.inf
        self._ranges: dict[str, tuple[int, int, frozenset[int]]] = {}
        self._taken_gpus = 0

    def refresh(self, state: SchedulerState, now_seconds: float) -> None:
        """Note in the state how many workers each elastic job gets."""
        elastic = {
            key: job
            for key, job in state.jobs.items()
            if job.demand.elastic and not job.suspended and not job.ends and not _leaves_late(job)
        }
        ranges = {
            key: (job.demand.fewest_workers, job.demand.most_workers, job.avoided_workers)
            for key, job in elastic.items()
        }
        taken_gpus = _taken_gpus(state, elastic) if elastic else 0
        longest_seconds = REALLOT_SECONDS if taken_gpus == self._taken_gpus else RIGID_SECONDS
        if ranges == self._ranges and (not ranges or now_seconds < self._asked_seconds + longest_seconds):
            self._due_seconds = self._asked_seconds + longest_seconds if ranges else math.inf
            return
        self._asked_seconds, self._ranges, self._taken_gpus = now_seconds, ranges, taken_gpus
        self._due_seconds = now_seconds + REALLOT_SECONDS if ranges else math.inf
        state.set_worker_counts(*self._counts(state, elastic, now_seconds))

    def next_seconds(self) -> float:
        """Return when the policy is called next; infinite: no job is elastic."""
        return self._due_seconds

    def _counts(
        self, state: SchedulerState, elastic: Mapping[str, Job], now_seconds: float
    ) -> tuple[dict[str, int], int]:
        """Return the number of workers by job, and the GPUs that rigid jobs leave. A job without a number has what it has, or what its
        user asks for."""
        if not elastic:
            return {}, 0
        gpus = ElasticGPUs(state, elastic, now_seconds)
        asked: dict[str, ElasticJob] = {}
        counts: dict[str, int] = {}
        for key, job in elastic.items():
            most = gpus.most_workers(job)
            if most >= job.demand.fewest_workers or (_held_workers(job) and not _may_change(state, job)):
                asked[key] = _elastic_job(state, job, most, now_seconds)
            else:
                counts[key] = 0
        for pool in gpus.pools(asked):
            counts.update(self._ask(state, [asked[key] for key in pool.keys], pool.free_gpus, now_seconds))
        if state.policies.admission:
            _keep_quotas(state, elastic, counts, now_seconds)
        return counts, gpus.free

    def _ask(
        self,
        state: SchedulerState,
        jobs: Sequence[ElasticJob],
        free_gpus: Mapping[str, int],
        now_seconds: float,
    ) -> dict[str, int]:
        """Return the policy's answer, without what is none. Where there is no answer, running jobs keep their workers."""
        try:
            found = dict(self._policy.allot(jobs, free_gpus, now_seconds))
        except Exception as error:
            state.note_failure(PolicyFailure.of("elastic", self._policy, error))
            found = {}
        else:
            wrong = [job for job in jobs if not _is_answer(job, found.get(job.key))]
            if wrong:
                first = wrong[0]
                message = (
                    f"it gives job {first.key} {found.get(first.key)!r} workers: 0 or {first.min_workers} to {first.max_workers} are "
                    "possible"
                )
                state.note_failure(PolicyFailure.of("elastic", self._policy, ValueError(message)))
        return {
            job.key: _without_failures(job, found[job.key])
            if _is_answer(job, found.get(job.key))
            else job.workers
            for job in jobs
            if _is_answer(job, found.get(job.key)) or job.workers
        }


def _is_answer(job: ElasticJob, workers: object) -> bool:
    """Whether a policy may give a job that: none, a number of its range, or those that it has."""
    return isinstance(workers, int) and (
        workers in (0, job.workers) or job.min_workers <= workers <= job.max_workers
    )


def _elastic_job(state: SchedulerState, job: Job, most: int, now_seconds: float) -> ElasticJob:
    held = () if job.state.is_releasing else job.placement
    return ElasticJob(
        job.key,
        job.demand.fewest_workers,
        _most_workers(state, job, most, now_seconds),
        job.created_seconds,
        tuple(sorted(Counter(worker.node for worker in held).values(), reverse=True)),
        job.demand.gpus_per_worker,
        job.service_gpu_seconds(now_seconds),
        job.restarts,
        job.goodput,
        job.explored_workers,
        job.rescale_seconds,
        _may_change(state, job),
        job.avoided_workers,
    )


def _without_failures(job: ElasticJob, workers: int) -> int:
    """Return the number that a policy has chosen, or the next smaller one with which the job does not fail; it has what it has if there is none."""
    if workers not in job.avoided_workers:
        return workers
    smaller = (
        each for each in range(workers - 1, job.min_workers - 1, -1) if each not in job.avoided_workers
    )
    return next(smaller, job.workers)


def _leaves_late(job: Job) -> bool:
    """Whether a job neither can start for minutes nor leaves its GPUs to others."""
    return job.state is JobState.TERMINATING and job.leaves_late


def _held_workers(job: Job) -> int:
    return 0 if job.state.is_releasing else len(job.placement)


def _may_change(state: SchedulerState, job: Job) -> bool:
    """Whether a job's number of workers may change. One with a worker where no new ones may start keeps it: it would lose that place."""
    return job.preemptible and (
        job.state.is_releasing or state.allocations.usable.issuperset(state.allocations.gpus_of(job.key))
    )


def _most_workers(state: SchedulerState, job: Job, most: int, now_seconds: float) -> int:
    """Return the most workers that a job may have: by its demand, the nodes that it may use, the GPUs that rigid jobs leave there, and the
    quota of its namespace."""
    held = _held_workers(job)
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

    few = job.demand.fewest_workers
    most = max(few, min(most, job.demand.most_workers))
    while few < most:
        middle = (few + most + 1) // 2
        few, most = (middle, most) if may_have(middle) else (few, middle - 1)
    return few


def _keep_quotas(
    state: SchedulerState, elastic: Mapping[str, Job], counts: dict[str, int], now_seconds: float
) -> None:
    """Reduce what jobs are to have beyond what they hold, the oldest last, until a namespace's quota allows all of it together.

    Else jobs would be stopped to grow, and only the first of them could start again.
    """
    further_gpus: defaultdict[str, float] = defaultdict(float)
    for key in sorted(counts, key=lambda each: (elastic[each].created_seconds, each)):
        job = elastic[key]
        held = _held_workers(job)
        growth = counts[key] - held
        if growth <= 0:
            continue

        def is_refused(workers: int, job: Job = job) -> bool:
            all_further = with_gpus(waiting_with(job, workers), further_gpus[job.namespace])
            return any(
                policy.refusal(all_further, state.capacity(IDLE), now_seconds) is not None
                for policy in state.policies.admission
            )

        allowed = bisect_left(range(1, growth + 1), True, key=is_refused)
        counts[key] = max(held + allowed, job.demand.fewest_workers)
        if counts[key] == held + allowed > held:
            further_gpus[job.namespace] += demanded_gpus(waiting_with(job, allowed))


def waiting_with(job: Job, workers: int) -> Job:
    """Return a job as it would wait with a number of workers."""
    demand = replace(job.demand, workers=workers, min_workers=None, max_workers=None)
    return replace(job, state=JobState.WAITING, placement=(), demand=demand)


def _taken_gpus(state: SchedulerState, elastic: Mapping[str, Job]) -> int:
    """Return the GPUs that rigid jobs hold or wait for, or foreign tenants hold, at most those of the cluster: beyond that, none are left
    to divide. A deleted job is gone at once: its workers are foreign tenants until they are told to end."""
    foreign = sum(gpu.foreign_percent > 0 for gpu in state.allocations.gpus)
    wanted = foreign + sum(
        job.demand.gpus
        for key, job in state.jobs.items()
        if key not in elastic and not job.frees_soon and (job.placement or not job.suspended)
    )
    return min(wanted, len(state.allocations.gpus))
