"""Action: reserve. A job that goes first, and that no preemption helps now, gets a start time, and keeps GPUs for it.

The start time is the earliest at which enough of the jobs that hold its GPUs have ended or may be preempted. If it is near, the
GPUs are kept idle. If it is far, or nobody knows it, other jobs use them, as in EASY backfilling (Lifka, JSSPP 1995): jobs that
may be preempted then. Only jobs that could not be preempted then are kept off.

The earliest start time never moves back. Newcomers are kept off the GPUs for it, and on other GPUs they come last.
"""

from __future__ import annotations

import math

from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.scenario import PreemptionScenario
from laneway.scheduling.framework.session import Reservation, Session
from laneway.scheduling.gpus.allocations import Allocation, AllocationStatus
from laneway.scheduling.gpus.views import FUTURE_IDLE
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.preemption.lowest_first import shortest_run
from laneway.scheduling.state.ranking import SortKey

_HOLDING = (AllocationStatus.ALLOCATED, AllocationStatus.PAUSED)

_MAX_RESERVATIONS = 4
"""Jobs for which one cycle reserves GPUs, the first in the order. The limit keeps a cycle short."""


def reserve(session: Session, job: Job, sort_key: SortKey) -> bool:
    """Reserve GPUs for a job that goes first; return whether there is a reservation."""
    if len(session.reservations) == _MAX_RESERVATIONS or not job.demand.preempts:
        return False
    free_at = _free_at_seconds(session, job)
    holders = [session.state.jobs[key] for key in sorted(free_at, key=free_at.__getitem__)]
    statement = session.statement()
    scenario = PreemptionScenario(session.state, statement, job, lambda: session.place(job, FUTURE_IDLE))
    run = shortest_run(holders, scenario)
    placement = None if run is None else scenario.placement_without(run)
    statement.rollback()
    if not run or placement is None:
        return False
    start_seconds = free_at[run[-1].key][0]
    if start_seconds - session.now_seconds <= session.state.min_run_seconds(job, session.now_seconds):
        # A job that started there now could not be preempted in time.
        statement.pipeline(job, placement)
        statement.commit()
    numbers = session.state.node_numbers
    nodes = frozenset(numbers[worker.node] for worker in placement)
    session.reservations.append(Reservation(sort_key, nodes, start_seconds))
    session.decision.waiting[job.key] = reasons.reserved(run, start_seconds - session.now_seconds)
    return True


def _free_at_seconds(session: Session, job: Job) -> dict[str, tuple[float, float, str]]:
    """Return, for each job that holds GPUs which this one could use, when they are free for it; then its start, and its key."""
    state = session.state
    allocations, avoided = state.allocations, state.avoided.get(job.key, frozenset())
    classes = {gpu_class for gpu_class, _ in state.capacity(FUTURE_IDLE).choices(job)}
    found = {}
    for key, entry in allocations.of_job.items():
        if entry.status in _HOLDING and any(
            allocations.classes[number] in classes and allocations.node_numbers[number] not in avoided
            for number, _ in entry.shares
        ):
            holder = state.jobs[key]
            started_seconds = holder.started_seconds
            if holder.state in (JobState.WAITING, JobState.STARTING) or started_seconds is None:
                started_seconds = session.now_seconds
            found[key] = (_end_seconds(session, job, holder, entry), started_seconds, key)
    return found


def _end_seconds(session: Session, job: Job, holder: Job, entry: Allocation) -> float:
    """Return when a job may be preempted for another one, or else is expected to end; infinite: nobody knows."""
    state, now_seconds = session.state, session.now_seconds
    if not holder.preemptible or holder.suspended or holder.priority > job.priority:
        if holder.expected_seconds is None:
            return math.inf
        left_seconds = holder.expected_seconds - holder.ran_seconds(now_seconds)
        return now_seconds + left_seconds if left_seconds > 0 else math.inf
    if holder.state in (JobState.WAITING, JobState.STARTING):
        return now_seconds + state.uninterrupted_seconds(holder, now_seconds)
    until_seconds = now_seconds
    if holder.state is JobState.RUNNING:
        until_seconds = state.policies.preemption.protected_until_seconds(holder)
    if holder.priority == job.priority:
        until_seconds = max(until_seconds, state.ranking.first_until.get(holder.key, now_seconds))
    return max(now_seconds, until_seconds)
