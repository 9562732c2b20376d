"""Action: rescale. A running job is stopped to restart from its checkpoint with another number of workers.

The elastic policy chooses the number, or the user asks for one. No job is rescaled twice within the minimum run time, nor while it
would lose unsaved work. A rescale that a user asks for also waits until the new gang fits; until then the job runs on as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

from laneway.scheduling.actions.stop import stop
from laneway.scheduling.actions.worker_counts import waiting_with
from laneway.scheduling.explain import held_rescales
from laneway.scheduling.framework.session import Session
from laneway.scheduling.gpus.views import FUTURE_IDLE, IDLE
from laneway.scheduling.model.held_rescale import HeldRescale
from laneway.scheduling.model.plan import PreemptionAction, PreemptionReason, WaitingReason
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.model.unsaved_work import evictable_until_seconds
from laneway.scheduling.state.scheduler_state import SchedulerState

Admission = Callable[[SchedulerState, Job, float], WaitingReason | None]
"""Returns why a waiting job may not compete; None: it may."""


def rescale_chosen(session: Session) -> None:
    """Stop the jobs for which the elastic policy has chosen another number of workers, if they have a place with it: first those that
    release GPUs, then the others."""
    jobs = session.state.jobs
    more = {key: workers - len(jobs[key].placement) for key, workers in session.state.worker_counts.items()}
    for key in sorted(more, key=lambda key: (more[key], key)):
        job, workers = jobs[key], session.state.worker_counts[key]
        if not more[key] or not _may_be_stopped(session, job):
            continue
        if not workers and session.state.runs_anyway(key):
            continue
        if not workers or _fits_without_itself(session, job, workers):
            _rescale(session, job, workers)


def _may_be_stopped(session: Session, job: Job) -> bool:
    """Whether the elastic policy may stop a job now."""
    return (
        job.state is JobState.RUNNING
        and job.preemptible
        and not job.suspended
        and session.policies.preemption.protected_until_seconds(job) <= session.now_seconds
        and session.now_seconds < evictable_until_seconds(job)
    )


def rescale_requested(session: Session, admission: Admission) -> None:
    """Stop the jobs whose users ask for another number of workers, unless that has to wait.

    It comes after all waiting jobs: a job grows into GPUs on which none of them starts, and which are kept for none of them. While one job
    grows, no other one is stopped: both might find a place, but not beside one another.
    """
    state = session.state
    releasing = (state.jobs[key] for key in state.releasing)
    growths = [_grows(job) for job in releasing if job.requested_workers is not None]
    for key in sorted(state.resized - session.decision.preemptions.keys()):
        job = state.jobs[key]
        assert job.requested_workers is not None
        held_back = _held_back(session, job, job.requested_workers)
        if not held_back and (any(growths) or (growths and _grows(job))):
            held_back = held_rescales.awaiting_another(job, job.requested_workers)
        if not held_back and _grows(job) and not _has_room(session, job, admission):
            held_back = held_rescales.awaiting_gpus(job, job.requested_workers)
        if held_back:
            session.decision.held_rescales[key] = held_back
        else:
            _rescale(session, job, job.requested_workers)
            growths.append(_grows(job))


def _grows(job: Job) -> bool:
    """Whether a job is to have more workers than it has, or had until it was stopped."""
    return job.requested_workers is not None and job.requested_workers > job.demand.workers


def rescale_due_seconds(state: SchedulerState, now_seconds: float) -> float:
    """Return when the first job that is to be rescaled has run for its minimum run time; infinite: none waits for that."""
    requested = (_again_seconds(state, state.jobs[key]) for key in state.resized)
    chosen = (
        state.policies.preemption.protected_until_seconds(job)
        for job in map(state.jobs.__getitem__, state.worker_counts)
        if job.state is JobState.RUNNING and state.worker_counts[job.key] != len(job.placement)
    )
    return min(
        (seconds for seconds in chain(requested, chosen) if seconds > now_seconds), default=float("inf")
    )


def _rescale(session: Session, job: Job, workers: int) -> None:
    by = "the elastic policy" if job.requested_workers is None else "spec.workers"
    number = "1 worker" if workers == 1 else f"{workers} workers"
    message = f"Stopping to restart with {number} instead of {len(job.placement)} ({by})."
    if not workers:
        message = "Stopping at its checkpoint: the elastic policy gives its GPUs to other jobs for now."
    stop(session, job.key, PreemptionReason.RESCALING, message)
    session.decision.rescales[job.key] = workers


def _held_back(session: Session, job: Job, workers: int) -> HeldRescale | None:
    """Return why a job keeps its workers though its user asks for others; None: nothing about the job forbids it."""
    if session.now_seconds < _again_seconds(session.state, job):
        min_run_seconds = session.state.min_run_seconds(job, session.now_seconds)
        return held_rescales.rescaled_lately(job, workers, min_run_seconds)
    if session.now_seconds >= evictable_until_seconds(job):
        return held_rescales.would_lose_work(job, workers)
    if _fits_without_itself(session, job, workers):
        return None
    demand, avoided = waiting_with(job, workers).demand, session.state.avoided.get(job.key, frozenset())
    unschedulable = session.state.cluster_capacity.unschedulable_reason(demand, avoided)
    if unschedulable is not None:
        return held_rescales.awaiting_nodes(job, workers, unschedulable)
    return held_rescales.awaiting_gpus(job, workers)


def _again_seconds(state: SchedulerState, job: Job) -> float:
    """Return from when on a job may be rescaled again."""
    if job.rescaled_seconds is None:
        return 0.0
    return job.rescaled_seconds + state.min_run_seconds(job, job.rescaled_seconds)


def _fits_without_itself(session: Session, job: Job, workers: int) -> bool:
    """Whether the new gang has a place once the job has released its GPUs, and no other job there leaves late."""
    state, statement = session.state, session.statement()
    statement.preempt({job.key: PreemptionAction.EVICT})
    restarted = _as_scheduled_with(state, job, workers)
    place = session.place(restarted, FUTURE_IDLE)
    awaited = () if place is None else state.allocations.releasing_for(restarted, place)
    statement.rollback()
    return place is not None and not any(state.jobs[key].leaves_late for key in awaited if key != job.key)


def _as_scheduled_with(state: SchedulerState, job: Job, workers: int) -> Job:
    """Return a job as it would wait with a number of workers, on the GPU model of its round."""
    waiting, model = waiting_with(job, workers), state.round.assigned.get(job.key)
    if model is None:
        return waiting
    return replace(waiting, demand=replace(waiting.demand, models=frozenset({model})))


def _has_room(session: Session, job: Job, admission: Admission) -> bool:
    """Whether its further workers fit on idle GPUs that no job before this one may claim, within the quota of its namespace."""
    assert job.requested_workers is not None
    state = session.state
    further = _as_scheduled_with(state, job, job.requested_workers - len(job.placement))
    if admission(state, further, session.now_seconds) is not None:
        return False
    sort_key = state.ranking.sort_keys[job.key]
    blocker = session.cache.blocker(gpu_class for gpu_class, _ in state.capacity(IDLE).choices(further))
    if blocker is not None and blocker < sort_key:
        return False
    with state.kept_off(job.key, session.closed_nodes(job, sort_key)):
        return session.place(further, IDLE) is not None
