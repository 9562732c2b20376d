"""Action: separate. A job leaves the GPUs that it shares if one of the jobs there loses more than its bound, or if sharing turned out not
to be worth it.

Both are known some minutes after jobs have joined, when the nodes have measured their speeds. What was measured is remembered for jobs
of their kinds, so that no such group forms again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from laneway.api.job_names import JobSentence
from laneway.scheduling.actions.stop import stop
from laneway.scheduling.framework.session import WHOLE_PERCENT, Session
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.plan import PreemptionReason
from laneway.scheduling.model.slowdown import least_speed_ratio
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.model.unsaved_work import (
    MOST_LOST_SECONDS,
    evictable_until_seconds,
    may_be_evicted,
)
from laneway.scheduling.placement.policy import SharesGPUs
from laneway.scheduling.state.measured_speeds import Group, groups_of

_DIGITS = 6
"""Gains that are the same up to these are a tie: they differ by rounding errors."""


_LONGEST_SPARED_SECONDS = 7200.0
"""A job that could not be evicted for this long counts as one that never saves. Many save once an hour."""


def separate(session: Session) -> None:
    """Stop jobs so that the others keep their bounds, and jobs that gain too little by sharing."""
    policy, measured = session.policies.placement, session.state.measured
    review, measured.to_review, measured.due_seconds = measured.to_review, set(), math.inf
    if not isinstance(policy, SharesGPUs):
        return
    shared = {key: groups for key in sorted(review) if (groups := _shared(session, key))}
    changed = _keep_bounds(session, shared)
    _keep_gains(session, policy, shared, changed)


def _shared(session: Session, key: str) -> list[Group]:
    """Return the groups of a running job with others on GPUs whose shares exceed 100 percent."""
    state = session.state
    job, allocations = state.jobs.get(key), state.allocations
    if job is None or job.state is not JobState.RUNNING:
        return []
    if all(allocations.turns_percent(number, IDLE) <= WHOLE_PERCENT for number in allocations.gpus_of(key)):
        return []
    return [group for group in groups_of(key, allocations) if len(group.jobs) > 1]


def _keep_bounds(session: Session, shared: dict[str, list[Group]]) -> set[str]:
    """Stop one job of each group in which a job was measured to lose more than its bound; return all jobs of these groups.

    The one that came last leaves, because the others were there before it; one of a higher priority class stays. A job that loses too
    much itself, and came last, leaves once GPUs of its own are free: beside others it is slow, but not as slow as while it waits.
    The minimum run time does not protect who leaves: it joined as a trial.
    """
    changed: set[str] = set()
    for key, groups in shared.items():
        ratio = _harmed(session, key, groups)
        sharers = {other.key for group in groups for other in group.jobs}
        if ratio is None or sharers & changed or sharers & session.decision.preemptions.keys():
            continue
        if any(session.state.jobs[each].state.is_releasing for each in sharers):
            continue  # one leaves already; the others are measured again without it
        leaver = _last_to_come(session, key, sharers)
        session.state.measured.to_review |= sharers - {leaver}
        if leaver is not None:
            changed |= sharers
            job = session.state.jobs[key]
            stop(session, leaver, PreemptionReason.SEPARATED, _bound_message(job, leaver, ratio, sharers))
    return changed


def _harmed(session: Session, key: str, groups: list[Group]) -> float | None:
    """Return the measured speed of a job that loses more than its bound; None if it does not, or was not measured."""
    ratio = session.state.measured.ratio_of(key, groups)
    return ratio if ratio is not None and ratio < least_speed_ratio(session.state.jobs[key]) else None


def _last_to_come(session: Session, harmed: str, sharers: Collection[str]) -> str | None:
    """Return which job leaves so that another one keeps its bound; None: nobody can now."""
    jobs = session.state.jobs
    measured = session.state.measured
    for key in sorted(sharers, key=lambda each: _precedence(jobs[each])):
        job = jobs[key]
        if key == harmed and not _has_own_place(session, job):
            return None
        if not job.preemptible:
            continue
        if job.starts_over:
            if _began_lately(session, job):
                return key
            continue
        if may_be_evicted(job, jobs[harmed].priority, session.now_seconds):
            return key
        spared_until_seconds = evictable_until_seconds(job) + _LONGEST_SPARED_SECONDS
        if session.now_seconds < spared_until_seconds:
            measured.due_seconds = min(measured.due_seconds, spared_until_seconds)
            return None
    return None


def _began_lately(session: Session, job: Job) -> bool:
    """Whether all that a job has done in this attempt may be lost."""
    started_seconds = job.started_seconds
    return started_seconds is not None and session.now_seconds < started_seconds + MOST_LOST_SECONDS


def _precedence(job: Job) -> tuple[float, float, str]:
    """Sort jobs by who leaves first: the lowest priority class, then the one that started last."""
    started_seconds = math.inf if job.started_seconds is None else job.started_seconds
    return job.priority, -started_seconds, job.key


def _has_own_place(session: Session, job: Job) -> bool:
    """Whether GPUs are free for a job alone, and no other job waits for some."""
    if len(session.state.queue):
        return False
    capacity = session.state.capacity(IDLE).unshared()
    return session.policies.placement.place(job, capacity) is not None


def _keep_gains(session: Session, policy: SharesGPUs, shared: Iterable[str], changed: set[str]) -> None:
    """Stop the jobs that gain too little by sharing: of each group the one that gains least, on a tie the last in order. Two jobs
    always gain the same.

    One that would lose too much unsaved work leaves once it has saved. Until then no job that comes before it leaves in its place,
    for two hours at most. One that may never leave (it is not preemptible, or starts over each time) is passed over.
    """
    measured = session.state.measured
    gains = {key: _gain(session, policy, key) for key in shared}
    too_little = {key: gain for key, gain in gains.items() if gain < policy.keep_gain_ratio}
    session.state.refresh_drifting(too_little, session.now_seconds)
    place = session.state.ranking.sort_keys
    last_first = sorted(too_little, key=place.__getitem__, reverse=True)
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
        stop(session, key, PreemptionReason.SEPARATED, _gain_message(session, policy, job))


def _gain(session: Session, policy: SharesGPUs, key: str) -> float:
    """Return what a job adds to the work of each of its GPUs, on average over the different groups; infinite: not known."""
    state = session.state
    job, groups = state.jobs[key], groups_of(key, state.allocations)
    if not state.measured.is_measured(key, groups):
        return math.inf
    gains = [
        policy.gain_ratio(job, _others(job, group), state.speeds.on(group.model).measured) for group in groups
    ]
    return math.fsum(gains) / len(gains)


def _others(job: Job, group: Group) -> list[Job]:
    return [other for other in group.jobs if other.key != job.key]


def _bound_message(harmed: Job, leaver: str, ratio: float, sharers: Collection[str]) -> JobSentence:
    speed = (
        f"was measured at {ratio:.0%} of its speed alone and is to keep {least_speed_ratio(harmed):.0%} "
        f"(maxSlowdownPercent {100 * harmed.demand.max_slowdown_ratio:.0f})"
    )
    if leaver == harmed.key:
        others = tuple(sorted(set(sharers) - {leaver}))
        return JobSentence("Beside ", others, f" it {speed}; GPUs of its own are free.")
    return JobSentence(
        "Shared its GPUs with ",
        (harmed.key,),
        f", which {speed}.",
        after_unnamed=", which was measured to lose more of its speed than its maxSlowdownPercent allows.",
    )


def _gain_message(session: Session, policy: SharesGPUs, job: Job) -> JobSentence:
    groups = groups_of(job.key, session.state.allocations)
    sharers = tuple(sorted({other.key for group in groups for other in _others(job, group)}))
    gain = _gain(session, policy, job.key)
    return JobSentence(
        "Sharing GPUs with ",
        sharers,
        f" changed the work done on each by {gain:+.1%} of a job's work alone; at least {policy.keep_gain_ratio:.1%} is required "
        "(scheduling.joining.keepGainRatio).",
    )
