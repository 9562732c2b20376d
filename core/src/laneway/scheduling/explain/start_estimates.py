"""Estimates when waiting jobs start, and names the jobs ahead of them.

Called after a plan, for some jobs, now and then. It decides nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

from laneway.scheduling.explain.forecast import (
    SHORTEST_SECONDS,
    Claim,
    GPUGroup,
    Holder,
    estimated_starts,
    expected_left_seconds,
)
from laneway.scheduling.gpus.allocation import Allocation, AllocationStatus
from laneway.scheduling.gpus.views import IDLE, Level
from laneway.scheduling.model.gpu_class import GPUClass
from laneway.scheduling.model.gpu_speed import ModelSpeed
from laneway.scheduling.model.host_resources import HostResources
from laneway.scheduling.model.plan import WaitingCode, WaitingReason
from laneway.scheduling.model.snapshot import Job, JobState, WorkerPlacement
from laneway.scheduling.state.scheduler_state import SchedulerState

ESTIMATED = 128
"""The number of first waiting jobs that get an estimate; further back it would mean nothing."""

_NAMED_AHEAD = 5
_WHOLE_PERCENT = 100

_DEPARTURE_SECONDS = 30.0
"""The approximate time until a victim is gone: a grace period for its checkpoint."""

_NOTHING_KNOWN_SECONDS = 600.0
"""The assumed run time while no job has run yet."""

_PREEMPTORS = (WaitingCode.AWAITING_PREEMPTION, WaitingCode.AWAITING_RELEASE)
_NOT_BY_JOBS = (WaitingCode.NODES_UNAVAILABLE, WaitingCode.HELD_BY_OTHER_PODS)
"""Reasons that last though jobs end."""


@dataclass(frozen=True, slots=True)
class StartEstimate:
    """When one waiting job may start."""

    ahead: tuple[str, ...] = ()
    """Waiting jobs ahead of it, the nearest first."""

    start_seconds: float | None = None
    """When it may start: an estimate; None: none can be made."""

    basis: str = ""
    """The basis of the estimate, as a sentence."""

    speeds: tuple[ModelSpeed, ...] = ()
    """How fast it runs on the GPU models that it can use, by name; empty where there is one model only."""


def start_estimates(
    state: SchedulerState,
    waiting: Mapping[str, WaitingReason],
    keys: Collection[str],
    now_seconds: float,
    *,
    trust_durations: bool = True,
) -> dict[str, StartEstimate]:
    """Return estimates for some waiting jobs.

    Args:
        state: as the cycle that found the reasons left it.
        waiting: all waiting jobs, in order.
        keys: the jobs to estimate.
        now_seconds: the moment.
        trust_durations: whether expected run times count.
    """
    line = [key for key, reason in waiting.items() if reason.position and _is_in_line(state.jobs[key])]
    first = list(islice(line, ESTIMATED))
    groups = _Groups(state, [state.as_scheduled(key).demand.requests for key in first])
    holders = _Holders(state, groups, now_seconds, trust_durations)
    falls = _falls(state, first, now_seconds)
    claims = [_claim(state, key, waiting[key], groups, holders, falls) for key in first]
    starts = (
        estimated_starts(claims, holders.all, groups.free_percent, now_seconds, _DEPARTURE_SECONDS)
        if keys
        else {}
    )
    position = {key: at for at, key in enumerate(line)}
    usable = {claim.key: claim.groups for claim in claims}
    found = {}
    for key in keys:
        at = position.get(key, 0)
        start_seconds = starts.get(key)
        job = state.as_scheduled(key)
        found[key] = StartEstimate(
            ahead=tuple(reversed(line[max(0, at - _NAMED_AHEAD) : at])),
            start_seconds=start_seconds,
            basis="" if start_seconds is None else holders.basis(job, usable[key]),
            speeds=_speeds(job, state),
        )
    return found


class _Groups:
    """The usable GPUs, by class and by the requests for which their nodes have too little."""

    def __init__(self, state: SchedulerState, requests: Iterable[HostResources]) -> None:
        self._allocations = allocations = state.allocations
        self._requests = list(dict.fromkeys(each for each in requests if each))
        self._lacks: dict[HostResources | None, tuple[int, ...]] = {None: ()}
        index = allocations.views.index(allocations.views.track(IDLE))
        self.free_percent = {
            GPUGroup(each): sum(
                number * _unshared(each, percent) for percent, number in index.of_class(each).sizes.items()
            )
            for each in allocations.usable_classes
        }
        """What is free of each now. What is free only to jobs that join others does not count: whether one may is not known before."""

        for node, numbers in enumerate(allocations.gpus_of_node):
            if self._lacking(node):
                for number in allocations.usable.intersection(numbers):
                    group = self.of_gpu(number)
                    free = _unshared(group.gpu_class, index.free[number])
                    self.free_percent[group] = self.free_percent.get(group, 0) + free
                    self.free_percent[GPUGroup(group.gpu_class)] -= free

    def of_gpu(self, number: int) -> GPUGroup:
        """Return the group of a GPU."""
        lacks = self._lacking(self._allocations.node_numbers[number])
        return GPUGroup(self._allocations.classes[number], lacks)

    def usable(self, classes: Collection[GPUClass], requests: HostResources) -> frozenset[GPUGroup]:
        """Return the groups of these classes whose nodes can hold a worker with these requests."""
        asked = self._requests.index(requests) if requests else None
        return frozenset(
            each for each in self.free_percent if each.gpu_class in classes and asked not in each.lacks
        )

    def _lacking(self, node: int) -> tuple[int, ...]:
        host = self._allocations.nodes[node].host
        found = self._lacks.get(host)
        if found is None:
            most = (self._allocations.hosts.most_workers(node, each) for each in self._requests)
            found = self._lacks[host] = tuple(at for at, workers in enumerate(most) if not workers)
        return found


class _Holders:
    """The jobs that hold GPUs, and for how long."""

    def __init__(self, state: SchedulerState, groups: _Groups, now_seconds: float, trust: bool) -> None:
        self._state, self._now_seconds, self._trust = state, now_seconds, trust
        self.all: list[Holder] = []
        self._said: dict[GPUGroup, tuple[int, int]] = {}
        """By group: the number of jobs that hold some of it, and the number of those with a known run time."""

        runs = []
        holding = [
            entry
            for entry in state.allocations.of_job.values()
            if entry.status not in (AllocationStatus.PAUSED, AllocationStatus.PIPELINED) and entry.shares
        ]
        self._held_percent = Counter[int]()
        """By GPU."""

        for entry in holding:
            for number, percent in entry.shares:
                self._held_percent[number] += percent
        for entry in holding:
            group = groups.of_gpu(entry.shares[0][0])
            model = group.gpu_class.model
            left_seconds, said = expected_left_seconds(entry.job, now_seconds, trust=trust, model=model)
            if entry.status is AllocationStatus.RELEASING:
                left_seconds, said = _DEPARTURE_SECONDS, True
            else:
                runs.append(entry.job.ran_seconds(now_seconds) + left_seconds)
            held, known = self._said.get(group, (0, 0))
            self._said[group] = (held + 1, known + said)
            self.all.append(self._holder(entry, group, left_seconds))
        self.typical_seconds = median(runs) if runs else _NOTHING_KNOWN_SECONDS

    def run_seconds(self, job: Job, model: str = "") -> float:
        """Return the assumed run time of a waiting job on GPUs of a model; empty: the one of its expected run time."""
        left_seconds, said = expected_left_seconds(job, self._now_seconds, trust=self._trust, model=model)
        if said or job.ran_seconds(self._now_seconds) > SHORTEST_SECONDS:
            return left_seconds
        return self.typical_seconds

    def basis(self, job: Job, groups: Collection[GPUGroup]) -> str:
        """Return the basis of an estimate for a job that can run on these GPUs, in sentences."""
        models = sorted({group.gpu_class.model for group in groups})
        converted = [model for model in models if self._trust and job.estimated_on(model) is not None]
        how = f" Its run time on {' and '.join(converted)} is an estimate." if converted else ""
        return self._of_holders(groups) + how

    def _of_holders(self, groups: Iterable[GPUGroup]) -> str:
        held, known = (sum(self._said.get(each, (0, 0))[at] for each in groups) for at in (0, 1))
        jobs = "1 job holds" if held == 1 else f"{held} jobs hold"
        if held == known:
            return f"{jobs} GPUs that it can use; all run times are known."
        return (
            f"{jobs} GPUs that it can use; {known} of them {'has' if known == 1 else 'have'} a known run time, and the others are assumed to "
            "run for as long again as they have."
        )

    def _share(self, number: int, percent: int) -> int:
        """Return what a share is of a GPU: jobs whose shares exceed 100 percent hold it together."""
        return math.ceil(percent * _WHOLE_PERCENT / max(_WHOLE_PERCENT, self._held_percent[number]))

    def _holder(self, entry: Allocation, group: GPUGroup, left_seconds: float) -> Holder:
        now_seconds = self._now_seconds
        ends_seconds = now_seconds + left_seconds
        state, key, job = self._state, entry.job.key, entry.job
        percent = sum(self._share(number, percent) for number, percent in entry.shares)
        may_fall = (
            entry.status is AllocationStatus.ALLOCATED
            and job.preemptible
            and not job.suspended
            and job.state is JobState.RUNNING
            and state.is_evictable(job, now_seconds)
        )
        if not may_fall or not state.policies.order.preempts_by_queue:
            return Holder(key, group, percent, ends_seconds)
        level = state.level(key)
        protected_seconds = state.policies.preemption.protected_until_seconds(job)
        until_seconds = state.ranking.ranks[key].until_seconds
        falls_to, falls_seconds = level, protected_seconds
        if until_seconds < math.inf:
            falls_to, falls_seconds = (level[0], level[1] + 1), max(until_seconds, protected_seconds)
        falls_seconds = max(falls_seconds, now_seconds)
        return Holder(key, group, percent, ends_seconds, falls_seconds, falls_to)


def _unshared(gpu_class: GPUClass, free_percent: int) -> int:
    """Return what is free of a GPU to jobs that join no others."""
    return max(0, free_percent - max(0, gpu_class.active_percent - _WHOLE_PERCENT))


def _models(choices: Iterable[tuple[GPUClass, int]]) -> list[str]:
    return sorted({gpu_class.model for gpu_class, _ in choices})


def _speeds(job: Job, state: SchedulerState) -> tuple[ModelSpeed, ...]:
    models = _models(state.capacity(IDLE).choices(job)) if job.speeds else []
    return tuple(each for each in job.speeds if each.model in models) if len(models) > 1 else ()


def _is_in_line(job: Job) -> bool:
    return job.state is JobState.WAITING and not job.suspended


def _falls(state: SchedulerState, keys: Sequence[str], now_seconds: float) -> dict[str, tuple[float, Level]]:
    """Return, by job, how long after an immediate start it becomes preemptible, and for jobs of which levels."""
    order, preemption = state.policies.order, state.policies.preemption
    if not order.preempts_by_queue or order.relative:
        return {}
    running = []
    for key in keys:
        job = state.as_scheduled(key)
        share_percent = min((share for _, share in state.capacity(IDLE).choices(job)), default=100)
        worker = WorkerPlacement(0, "", ("",) * job.demand.gpus, share_percent)
        running.append(replace(job, state=JobState.RUNNING, placement=(worker,), started_seconds=now_seconds))
    found = {}
    ranks = order.ranks(running, len(state.allocations.gpus), now_seconds)
    for job in running:
        rank = ranks[job.key]
        protected_seconds = preemption.protected_until_seconds(job) - now_seconds
        if not job.preemptible:
            continue
        queue, after_seconds = rank.queue, protected_seconds
        if rank.until_seconds < math.inf:
            queue, after_seconds = queue + 1, max(protected_seconds, rank.until_seconds - now_seconds)
        found[job.key] = (after_seconds, (-job.priority, queue))
    return found


def _claim(
    state: SchedulerState,
    key: str,
    reason: WaitingReason,
    groups: _Groups,
    holders: _Holders,
    falls: Mapping[str, tuple[float, Level]],
) -> Claim:
    job = state.as_scheduled(key)
    choices = state.capacity(IDLE).choices(job)
    share_percent = min((share for _, share in choices), default=0)
    level = state.level(key)
    falls_after_seconds, falls_to = falls.get(key, (math.inf, level))
    return Claim(
        key,
        level,
        frozenset() if reason.code in _NOT_BY_JOBS else groups.usable(dict(choices), job.demand.requests),
        min(share_percent, _WHOLE_PERCENT) * job.demand.gpus,
        holders.run_seconds(job),
        reason.code in _PREEMPTORS,
        falls_after_seconds,
        falls_to,
        {model: holders.run_seconds(job, model) for model in _models(choices)} if job.speeds else {},
    )
