"""Action: reserve. A job that goes first, and that no preemption helps now, gets a start time, and keeps GPUs for it.

The start time is the earliest at which enough of the jobs that hold its GPUs have ended or may be preempted. If it is near, the
GPUs are kept idle. If it is far or unknown, other jobs use them, as in EASY backfilling (Lifka, JSSPP 1995), unless they
may never be preempted. Those that came after the job, and started after it went first, are preempted at the start time even if they
go first themselves. If only such jobs are in the way, because they have unsaved work, no further ones start.

So the earliest start time never moves back for long: newcomers hold none of the GPUs beyond it but for one generation of jobs
with unsaved work, and on other GPUs they come last.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from laneway.scheduling.actions.preempt import preempt_victims
from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.scenario import PreemptionScenario
from laneway.scheduling.framework.session import Reservation, Session
from laneway.scheduling.framework.statement import Placement
from laneway.scheduling.gpus.allocation import AllocationStatus
from laneway.scheduling.gpus.views import FUTURE_IDLE
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.model.unsaved_work import may_be_evicted
from laneway.scheduling.preemption.lowest_first import shortest_run
from laneway.scheduling.state.ranking import SortKey

_HOLDING = (AllocationStatus.ALLOCATED, AllocationStatus.PAUSED)

_STARTING_SECONDS = 1.0
"""A job that starts is left to start, even without a minimum run time."""

_MAX_RESERVATIONS = 4
"""Jobs for which one cycle reserves GPUs, the first in the order. The limit keeps a cycle short."""


def reserve(session: Session, job: Job, sort_key: SortKey) -> bool:
    """Reserve GPUs for a job that goes first; return whether there is a reservation."""
    classes = {gpu_class for gpu_class, _ in session.state.capacity(FUTURE_IDLE).choices(job)}
    avoided = session.state.avoided.get(job.key, frozenset())
    allocations = session.state.allocations
    return _reserve(
        session,
        job,
        sort_key,
        lambda: session.place(job, FUTURE_IDLE),
        lambda number: (
            allocations.classes[number] in classes and allocations.node_numbers[number] not in avoided
        ),
    )


def reserve_in_place(session: Session, job: Job, sort_key: SortKey) -> bool:
    """Reserve the GPUs of a paused job that goes first, so that it resumes; return whether there is a reservation.

    It can run nowhere else: without a reservation, other jobs would take its GPUs one by one, as those there end.
    """
    allocations = session.state.allocations
    gpus = {number for number, _ in allocations.of_job[job.key].shares}

    def place() -> Placement | None:
        return job.placement if session.can_resume(job.key, FUTURE_IDLE) else None

    if place() is None:
        return _reserve(session, job, sort_key, place, gpus.__contains__)
    statement = session.statement()
    statement.pipeline(job, job.placement)
    statement.commit()
    session.reservations.append(Reservation(sort_key, _nodes(session, job.placement), backfill=True))
    return True


def _reserve(
    session: Session,
    job: Job,
    sort_key: SortKey,
    place: Callable[[], Placement | None],
    suits: Callable[[int], bool],
) -> bool:
    """Reserve GPUs for a job.

    Args:
        session: the cycle's.
        job: goes first.
        sort_key: its place in the order.
        place: finds a place for it in FUTURE_IDLE.
        suits: whether it could use the GPU of this number.
    """
    if len(session.reservations) == _MAX_RESERVATIONS or not job.demand.preempts:
        return False
    now_seconds, statement = session.now_seconds, session.statement()
    first_since_seconds = session.state.first_since_seconds(job)
    free_at = _free_at_seconds(session, job, first_since_seconds, suits)
    holders = [session.state.jobs[key] for key in sorted(free_at, key=free_at.__getitem__)]
    once_gone = PreemptionScenario(session.state, statement, job, place, lambda _: True)
    run = shortest_run(holders, once_gone)
    placement = None if run is None else once_gone.placement_without(run)
    if not run or placement is None:
        statement.rollback()
        return False
    start_seconds = free_at[run[-1].key][0]
    if start_seconds <= now_seconds and session.preemptors < session.max_preemptors:
        victims = once_gone.in_the_way(run)
        if not victims:  # it fits beside them: more sharers of a GPU may slow a further one less
            statement.rollback()
            return False
        now = PreemptionScenario(
            session.state,
            statement,
            job,
            place,
            lambda holder: may_be_evicted(holder, job.priority, now_seconds),
        )
        return preempt_victims(session, job, statement, now, victims)
    statement.rollback()
    soon_seconds = now_seconds + session.state.min_run_seconds(job, now_seconds)
    if start_seconds <= soon_seconds:  # a job that started there now could not be preempted in time
        statement.pipeline(job, placement)
        statement.commit()
    late = [holder for holder in run if free_at[holder.key][0] > soon_seconds]
    backfill = not late or not all(
        holder.preemptible
        and holder.priority == job.priority
        and _came_after(holder, job, first_since_seconds)
        for holder in late
    )
    session.reservations.append(Reservation(sort_key, _nodes(session, placement), backfill))
    may_preempt = start_seconds <= now_seconds  # but this cycle preempts for enough others
    session.decision.waiting[job.key] = (
        reasons.not_reached() if may_preempt else reasons.reserved(run, start_seconds - now_seconds)
    )
    return True


def _nodes(session: Session, placement: Placement) -> frozenset[int]:
    numbers = session.state.node_numbers
    return frozenset(numbers[worker.node] for worker in placement)


def _came_after(holder: Job, job: Job, first_since_seconds: float) -> bool:
    """Whether a job was submitted after another one, and started after that went first."""
    started_after = holder.started_seconds is not None and holder.started_seconds >= first_since_seconds
    return started_after and (holder.created_seconds, holder.key) > (job.created_seconds, job.key)


def _free_at_seconds(
    session: Session, job: Job, first_since_seconds: float, suits: Callable[[int], bool]
) -> dict[str, tuple[float, float, str]]:
    """Return, for each other job that holds GPUs which this one could use, when they are free for it; then its start, and its key."""
    state = session.state
    found = {}
    for key, entry in state.allocations.of_job.items():
        if key != job.key and entry.status in _HOLDING and any(suits(number) for number, _ in entry.shares):
            holder = state.jobs[key]
            started_seconds = holder.started_seconds
            if holder.state in (JobState.WAITING, JobState.STARTING) or started_seconds is None:
                started_seconds = session.now_seconds
            end_seconds = _end_seconds(session, job, holder, first_since_seconds)
            found[key] = (end_seconds, started_seconds, key)
    return found


def _end_seconds(session: Session, job: Job, holder: Job, first_since_seconds: float) -> float:
    """Return when a job may be preempted for another one, or else is expected to end; infinite: unknown."""
    state, now_seconds = session.state, session.now_seconds
    never = not holder.preemptible or holder.suspended or holder.priority > job.priority
    if holder.state in (JobState.WAITING, JobState.STARTING):
        protected_seconds = now_seconds + max(_STARTING_SECONDS, state.min_run_seconds(holder, now_seconds))
    else:
        protected_seconds = now_seconds
        if holder.state is JobState.RUNNING:
            protected_seconds = max(now_seconds, state.policies.preemption.protected_until_seconds(holder))
        if holder.priority == job.priority:
            if not _came_after(holder, job, first_since_seconds):
                first_until_seconds = state.ranking.first_until.get(holder.key, now_seconds)
                protected_seconds = max(protected_seconds, first_until_seconds)
            never = never or not state.is_evictable(holder, protected_seconds)
    if not never:
        return protected_seconds
    if holder.expected_seconds is None:
        return math.inf
    left_seconds = holder.expected_seconds - holder.ran_seconds(now_seconds)
    return now_seconds + left_seconds if left_seconds > 0 else math.inf
