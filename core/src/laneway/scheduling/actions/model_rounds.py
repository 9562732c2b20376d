"""Rounds: which jobs run on which GPU model until the next round (Gavel, OSDI'20, section 5).

The order policy gives each job a target, the part of the time that it is to have on each model. In each round and on each model, the jobs
go first that have had the least of their targets; what does not fit waits. When the targets are computed again, what a job lacks is kept
as its deficit, which decides among equals. A job that is to run elsewhere, or not at all, stops at the beginning of a round.

A gang that fits on the GPUs of no single model takes part in no round: it starts where enough GPUs are idle, and keeps them. The time that
jobs have had is kept in memory. After a restart of the operator, the first round moves nobody.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from laneway.scheduling.actions.stop import stop
from laneway.scheduling.framework.session import Session
from laneway.scheduling.gpus.views import FUTURE_IDLE, IDLE
from laneway.scheduling.model.plan import PolicyFailure, PreemptionAction, PreemptionReason
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.model.unsaved_work import evictable_until_seconds
from laneway.scheduling.order.policy import AssignsModels, RoundJob
from laneway.scheduling.state.model_round import ModelRound
from laneway.scheduling.state.scheduler_state import SchedulerState

SETTLE_SECONDS = 120.0
"""For so long after the beginning of a round, jobs that are not assigned leave idle GPUs to those that are and do not run yet:
they wait for others to leave."""


@dataclass(slots=True)
class _Account:
    """What a job has had since the targets were computed, and lacked before, by model."""

    received_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    deficit_seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


class ModelRounds:
    """Begins a round when one is due."""

    def __init__(self, policy: AssignsModels) -> None:
        self._policy = policy
        self._began_seconds = -math.inf
        self._targets: Mapping[str, Mapping[str, float]] = {}
        self._targets_seconds = -math.inf
        self._asked_of: dict[str, tuple[float, Mapping[str, float]]] = {}
        self._gpus: Mapping[str, float] = {}
        self._accounts: dict[str, _Account] = {}

    def refresh(self, state: SchedulerState, now_seconds: float) -> None:
        """Note in the state which jobs run where in the round."""
        if now_seconds < self.next_seconds():
            state.set_round(state.round.settled(state.jobs, now_seconds))
            return
        gpus = _gpus(state)
        jobs = list(_round_jobs(state, gpus))
        outside = frozenset(each.job.key for each in jobs if not each.per_second)
        jobs = [each for each in jobs if each.per_second]
        _take(gpus, (state.jobs[key] for key in outside), state)
        if not jobs:
            self._began_seconds = -math.inf
            state.set_round(ModelRound())
            return
        self._count_round(jobs, now_seconds)
        try:
            self._update_targets(jobs, gpus, now_seconds)
        except Exception as error:
            state.note_failure(PolicyFailure.of("order", self._policy, error))
        is_first = self._began_seconds == -math.inf
        self._began_seconds = now_seconds
        staying = {
            each.job.key: each.held_model
            for each in jobs
            if each.job.placement and (is_first or not _may_move(each.job, state, now_seconds))
        }
        left = dict(gpus)
        _take(left, (state.jobs[key] for key in staying), state)
        assigned = self._assigned(jobs, left, staying)
        settles_seconds = now_seconds + SETTLE_SECONDS
        new = ModelRound(now_seconds, settles_seconds, self.next_seconds(), assigned, outside)
        state.set_round(new.settled(state.jobs, now_seconds))

    def next_seconds(self) -> float:
        """Return when the next round is due; in the past where none is under way."""
        return self._began_seconds + self._policy.round_seconds

    def _count_round(self, jobs: Sequence[RoundJob], now_seconds: float) -> None:
        """Count the round that ends."""
        keys = {each.job.key for each in jobs}
        self._accounts = {key: account for key, account in self._accounts.items() if key in keys}
        for each in jobs:
            account = self._accounts.setdefault(each.job.key, _Account())
            model, started = each.held_model, each.job.started_seconds
            if each.job.state is JobState.RUNNING and model and started is not None:
                account.received_seconds[model] += now_seconds - max(started, self._began_seconds)

    def _update_targets(
        self, jobs: Sequence[RoundJob], gpus: Mapping[str, float], now_seconds: float
    ) -> None:
        asked_of = {each.job.key: (each.gpus, each.per_second) for each in jobs}
        since_seconds = now_seconds - self._targets_seconds
        is_same = asked_of == self._asked_of or since_seconds < self._policy.reallocate_seconds
        if is_same and gpus == self._gpus:
            return
        self._asked_of = asked_of
        for key, account in self._accounts.items():
            target = self._targets.get(key, {})
            for model in target.keys() | account.received_seconds.keys():
                owed_seconds = target.get(model, 0.0) * since_seconds if target else 0.0
                account.deficit_seconds[model] += owed_seconds - account.received_seconds[model]
            account.received_seconds.clear()
        self._targets = self._policy.targets(jobs, gpus)
        self._targets_seconds, self._gpus = now_seconds, gpus

    def _assigned(
        self,
        jobs: Sequence[RoundJob],
        left: dict[str, float],
        staying: Mapping[str, str],
    ) -> dict[str, str]:
        """Return the model of each job that runs in the round.

        Args:
            jobs: all.
            left: the GPUs by model, without those of jobs that stay where they are.
            staying: the models of these jobs.
        """
        assigned = dict(staying)
        order = self._policy.model_order(jobs, left)
        for priority in sorted({each.job.priority for each in jobs}, reverse=True):
            equals = [each for each in jobs if each.job.priority == priority]
            for model in order:
                able = [each for each in equals if model in each.per_second and each.job.key not in assigned]
                for each in sorted(able, key=lambda each: self._place(each, model)):
                    if each.gpus <= left[model] + 1e-9:
                        left[model] -= each.gpus
                        assigned[each.job.key] = model
        return assigned

    def _place(self, each: RoundJob, model: str) -> tuple[float | bool | str, ...]:
        """Return a job's place on a model: by target over time received, then by deficit; a half round counts as received from the start."""
        target = self._targets.get(each.job.key, {}).get(model, 0.0)
        account = self._accounts[each.job.key]
        received = account.received_seconds[model] + self._policy.round_seconds / 2
        return (
            -target / received,
            -account.deficit_seconds[model],
            -target,
            each.held_model != model,
            each.job.created_seconds,
            each.job.key,
        )


def reassign(session: Session) -> None:
    """Action: stop the jobs that have held their GPUs since before the round, and that it gives other GPUs, or none.

    GPUs are assigned by their number. Nobody is stopped on a model on which no assigned job has a place even then: parts of GPUs, and
    GPUs of several nodes, may not make what it needs.
    """
    state, round_ = session.state, session.state.round
    leaving: dict[str, str] = {}
    for key in sorted(state.allocations.of_job.keys() - round_.outside if round_.assigned else ()):
        job = state.jobs[key]
        if job.started_seconds is None or job.started_seconds >= round_.began_seconds:
            continue
        model = round_.assigned.get(key, "")
        if model != _held_model(state, job) and _may_move(job, state, session.now_seconds):
            leaving[key] = model
    models = _models_with_a_place(session, leaving) if leaving else set()
    for key, model in leaving.items():
        held = _held_model(state, state.jobs[key])
        if (model or held or next(iter(models), "")) not in models:
            continue
        then = (
            f"it continues on {model}" if model else "the GPUs go to jobs that have had less of their share"
        )
        message = f"Its round on {held or 'GPUs of several models'} is over: {then}."
        stop(session, key, PreemptionReason.REASSIGNED, message)


def _models_with_a_place(session: Session, leaving: Collection[str]) -> set[str]:
    """Return the models on which an assigned job that has no GPUs, or leaves its own, has a place once these jobs are gone."""
    state, found = session.state, set[str]()
    statement = session.statement()
    statement.preempt(dict.fromkeys(leaving, PreemptionAction.EVICT))
    for key, model in state.round.assigned.items():
        job = state.jobs.get(key)
        if model in found or job is None or job.suspended:
            continue
        if key in leaving or job.state is JobState.WAITING:
            demand = replace(state.as_scheduled(key).demand, models=frozenset({model}))
            there = replace(job, state=JobState.WAITING, placement=(), demand=demand)
            if session.place(there, FUTURE_IDLE) is not None:
                found.add(model)
    statement.rollback()
    return found


def _round_jobs(state: SchedulerState, gpus: Mapping[str, float]) -> Iterator[RoundJob]:
    """Yield the jobs that hold GPUs for longer, or may run; those that fit on no single model have no speeds."""
    for key in sorted(state.jobs):
        job = state.jobs[key]
        if job.state.is_releasing or job.suspended or not (job.placement or job.competes):
            continue
        if job.state is JobState.WAITING and state.gets_no_workers(key):
            continue  # else others would be stopped in each round for a job that cannot start
        workers = (
            state.as_scheduled(key).demand.workers if job.state is JobState.WAITING else job.demand.workers
        )
        demand, avoided = replace(job.demand, workers=workers), state.avoided.get(key, frozenset())
        shares = {
            gpu_class.model: share_percent for gpu_class, share_percent in state.capacity(IDLE).choices(job)
        }
        usable = [
            model
            for model in shares
            if gpus.get(model)
            and state.cluster_capacity.unschedulable_reason(
                replace(demand, models=frozenset({model})), avoided
            )
            is None
        ]
        percent = max((shares[model] for model in usable), default=100)
        held = _held_model(state, job)
        yield RoundJob(job, demand.gpus * min(percent, 100) / 100, _per_second(job, usable), held)


def _per_second(job: Job, models: Sequence[str]) -> dict[str, float]:
    known = {model: speed.per_second for model in models if (speed := job.speed_on(model)) is not None}
    usual = fmean(known.values()) if known else 1.0
    return {model: known.get(model, usual) for model in models}


def _gpus(state: SchedulerState) -> dict[str, float]:
    """Return by model the usable GPUs, less what foreign tenants hold."""
    found: dict[str, float] = defaultdict(float)
    allocations = state.allocations
    for number in sorted(allocations.usable):
        gpu = allocations.gpus[number]
        found[gpu.model] += max(0, min(100, gpu.allocatable_percent) - gpu.foreign_percent) / 100
    return {model: gpus for model, gpus in found.items() if gpus > 0}


def _take(left: dict[str, float], jobs: Iterable[Job], state: SchedulerState) -> None:
    """Subtract the GPUs that jobs hold."""
    allocations = state.allocations
    for job in jobs:
        for worker in job.placement:
            for uuid in worker.gpus:
                number = allocations.number.get(uuid)
                model = "" if number is None else allocations.gpus[number].model
                if model in left:
                    left[model] = max(0.0, left[model] - min(worker.share_percent, 100) / 100)


def _held_model(state: SchedulerState, job: Job) -> str:
    """Return the model of a job's GPUs; empty where there are several, or where they have left the cluster."""
    allocations = state.allocations
    models = {allocations.gpus[number].model for number in allocations.gpus_of(job.key)}
    return models.pop() if len(models) == 1 else ""


def _may_move(job: Job, state: SchedulerState, now_seconds: float) -> bool:
    """Whether a job that holds GPUs may be stopped: not within its minimum run time, and not if it would lose too much work."""
    return (
        job.state is JobState.RUNNING
        and job.preemptible
        and state.policies.preemption.protected_until_seconds(job) <= now_seconds
        and now_seconds < evictable_until_seconds(job)
    )
