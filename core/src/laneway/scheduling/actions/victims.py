"""Finds the candidates that may be preempted for a job."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile

from laneway.scheduling.framework.session import Session
from laneway.scheduling.framework.statement import Placement
from laneway.scheduling.gpus.views import FUTURE_IDLE, Level, View
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.state.ranking import SortKey

_TRIED_ANYWHERE = 8
"""Candidates tried wherever they run, beyond one for each worker of the gang. If they are not enough, further candidates must
hold GPUs on which the gang would be placed without any preemptible level."""


def candidates(session: Session, job: Job, sort_key: SortKey) -> Iterator[list[Job]]:
    """Yield groups of jobs that may be preempted for a job, the preferred group first.

    Within a group the job that goes last in the order comes first. Nothing is yielded where preemption cannot help.
    """
    state = session.state
    if not session.policies.order.preempts_by_queue:
        yield _later_in_order(session, job, sort_key)
        return
    level = sort_key[:2]
    if not state.capacity(FUTURE_IDLE).may_fit(job, state.preemptible.percent_below(level)):
        return
    reach = _reach(session, job, level)
    if reach is None:
        return
    lowest, gpus = reach
    preempted = session.decision.preemptions
    later = takewhile(lambda key: state.preemptible.level(key) > lowest, state.preemptible.last_first())
    count = job.demand.workers + _TRIED_ANYWHERE
    anywhere = [state.jobs[key] for key in islice((key for key in later if key not in preempted), count)]
    yield anywhere
    if len(anywhere) == count:
        there = [key for key in state.allocations.below(lowest, job, gpus) if key not in preempted]
        there.sort(key=state.ranking.sort_keys.__getitem__, reverse=True)
        yield [state.jobs[key] for key in there]


def later_in_place(session: Session, job: Job, sort_key: SortKey) -> list[Job]:
    """Return the jobs that may be paused for a paused job on its own GPUs, the last in the order first. None where no job can be
    paused, and none for order policies that compare more than queues: they let running jobs be."""
    state = session.state
    gone = any(uuid not in state.allocations.number for worker in job.placement for uuid in worker.gpus)
    if gone or not session.policies.order.preempts_by_queue or not state.allocations.supports_pausing:
        return []
    gpus = set(state.allocations.gpus_of(job.key))
    keys = [
        key
        for key in state.allocations.below(sort_key[:2], job, job.placement)
        if key not in session.decision.preemptions
        and state.jobs[key].pausable
        and not gpus.isdisjoint(state.allocations.gpus_of(key))
    ]
    keys.sort(key=state.ranking.sort_keys.__getitem__, reverse=True)
    return [state.jobs[key] for key in keys]


def _later_in_order(session: Session, job: Job, sort_key: SortKey) -> list[Job]:
    """Return the preemptible jobs that the order policy lets this job preempt, for policies that compare more than queues."""
    state = session.state
    keys, percent = state.preemptible.after(sort_key, session.now_seconds)
    if not state.capacity(FUTURE_IDLE).may_fit(job, percent):
        return []
    state.refresh_drifting(keys, session.now_seconds)
    ranks, order = state.ranking.ranks, session.policies.order
    jobs = (state.jobs[key] for key in sorted(keys, key=state.ranking.sort_keys.__getitem__, reverse=True))
    later = takewhile(
        lambda running: (
            running.priority < job.priority
            or (running.priority == job.priority and order.may_preempt(ranks[job.key], ranks[running.key]))
        ),
        jobs,
    )
    return [running for running in later if running.key not in session.decision.preemptions]


def _reach(session: Session, job: Job, level: Level) -> tuple[Level, Placement] | None:
    """Return the largest level such that the gang fits if all jobs of larger levels are gone, and where it fits then.

    None if it would not fit even without every preemptible job. Found by bisection: where the gang fits at one level, it
    fits at all smaller ones.
    """
    state = session.state
    below = state.preemptible.levels_below(level)
    if not below:
        return None
    floors = [level, *below[:-1]]
    found = None
    low, high = 0, len(floors)
    while low < high:
        middle = 0 if found is None else (low + high) // 2
        placement = session.policies.placement.place(job, state.capacity(View(below=floors[middle])))
        if placement is None:
            high = middle
        else:
            found, low = (floors[middle], placement), middle + 1
    return found
