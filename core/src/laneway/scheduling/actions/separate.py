"""Action: separate. A job leaves the GPUs that it shares if that turned out not to be worth it.

Whether it is worth it is known some minutes after jobs have joined, when the nodes have measured their speeds. What was measured is
remembered for jobs of their kinds, so that no such group forms again.
"""

from __future__ import annotations

import math

from laneway.scheduling.actions.stop import stop
from laneway.scheduling.framework.session import Session
from laneway.scheduling.model.plan import PreemptionReason
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.model.unsaved_work import evictable_until_seconds, may_be_evicted
from laneway.scheduling.placement.policy import SharesGPUs
from laneway.scheduling.state.measured_speeds import Group, groups_of

_DIGITS = 6
"""Gains that are the same up to these are a tie: they differ by rounding errors."""


_LONGEST_SPARED_SECONDS = 7200.0
"""A job that could not be evicted for this long counts as one that never saves. Many save once an hour."""


def separate(session: Session) -> None:
    """Stop the jobs that gain too little by sharing: of each group the one that gains least, on a tie the last in order. Two jobs
    always gain the same.

    One that would lose too much unsaved work leaves once it has saved. Until then no job that comes before it leaves in its place,
    for two hours at most. One that may never leave (it is not preemptible, or starts over each time) is passed over.
    """
    policy, measured = session.policies.placement, session.state.measured
    review, measured.to_review, measured.due_seconds = measured.to_review, set(), math.inf
    if not isinstance(policy, SharesGPUs):
        return
    gains = {key: _gain(session, policy, key) for key in review}
    too_little = {key: gain for key, gain in gains.items() if gain < policy.keep_gain_ratio}
    session.state.refresh_drifting(too_little, session.now_seconds)
    place = session.state.ranking.sort_keys
    last_first = sorted(too_little, key=place.__getitem__, reverse=True)
    changed: set[str] = set()
    spared: set[str] = set()
    for key in sorted(last_first, key=lambda each: round(too_little[each], _DIGITS)):
        job = session.state.jobs[key]
        sharers = {other.key for group in groups_of(key, session.state.allocations) for other in group.jobs}
        if changed & sharers or key in session.decision.preemptions:
            continue
        if not job.preemptible or job.starts_over or key in spared:
            continue
        if not may_be_evicted(job, job.priority, session.now_seconds):
            measured.to_review |= sharers
            spared_until_seconds = evictable_until_seconds(job) + _LONGEST_SPARED_SECONDS
            if session.now_seconds < spared_until_seconds:
                measured.due_seconds = min(measured.due_seconds, spared_until_seconds)
                spared.update(each for each in sharers if place[each] < place[key])
            continue
        protected_seconds = session.policies.preemption.protected_until_seconds(job)
        if protected_seconds > session.now_seconds:
            # It leaves later; nobody leaves in its place, mostly one that was there before it.
            changed |= sharers
            measured.to_review |= sharers
            measured.due_seconds = min(measured.due_seconds, protected_seconds)
            continue
        changed |= sharers
        measured.to_review |= sharers - {key}
        stop(session, key, PreemptionReason.SEPARATED, _message(session, policy, job))


def _gain(session: Session, policy: SharesGPUs, key: str) -> float:
    """Return what a job adds to the work of each of its GPUs, on average over the different groups; infinite: not known."""
    state = session.state
    job, groups = state.jobs.get(key), groups_of(key, state.allocations)
    if job is None or job.state is not JobState.RUNNING or not state.measured.is_measured(key, groups):
        return math.inf
    gains = [
        policy.gain_ratio(job, _others(job, group), state.speeds.on(group.model).measured) for group in groups
    ]
    return math.fsum(gains) / len(gains)


def _others(job: Job, group: Group) -> list[Job]:
    return [other for other in group.jobs if other.key != job.key]


def _message(session: Session, policy: SharesGPUs, job: Job) -> str:
    sharers = sorted(
        {
            other.key
            for group in groups_of(job.key, session.state.allocations)
            for other in _others(job, group)
        }
    )
    return f"Shared its GPUs with {', '.join(sharers)}: together they were measured to be too slow."
