"""Gives every waiting job its reason and its position, after a cycle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.unschedulable_cache import UnschedulableCache
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.plan import Decision, WaitingReason
from laneway.scheduling.model.snapshot import Job, JobState
from laneway.scheduling.state.scheduler_state import SchedulerState
from laneway.scheduling.state.waiting_queue import EquivalenceClass


def waiting_order(state: SchedulerState, decision: Decision) -> list[str]:
    """Return the jobs that may have a reason to wait, in order: all but those that hold GPUs and keep them."""
    keys = state.queue.class_of.keys() | state.suspended_waiting | decision.waiting.keys()
    return sorted(keys, key=state.ranking.sort_keys.__getitem__)


def waiting_reasons(
    order: Sequence[str],
    state: SchedulerState,
    cache: UnschedulableCache,
    decision: Decision,
    before: Mapping[str, WaitingReason],
    again: Collection[str] | None = None,
) -> Mapping[str, WaitingReason]:
    """Return why each waiting job waits, in order; jobs that can never run have no position.

    Jobs of an equivalence class that the cycle did not take up wait for the same reason, so it is worked out once.

    Args:
        order: the jobs, the first one first; at least those of :func:`waiting_order`.
        state: as the cycle left it.
        cache: as the cycle left it.
        decision: the cycle's.
        before: the reasons that were returned last; one that is still the same is returned again.
        again: jobs whose reasons are worked out again; of the others only where the cycle gives a new one. None: all are.
    """
    jobs, class_of, starts, own = state.jobs, state.queue.class_of, decision.starts, decision.waiting
    by_class: dict[EquivalenceClass, WaitingReason] = {}
    waiting: dict[str, WaitingReason] = {}
    position = 0
    for key in order:
        job = jobs[key]
        if key in starts or not (job.state is JobState.WAITING or key in own):
            continue
        if job.suspended:
            waiting[key] = reasons.suspended()
            continue
        reason = own.get(key)
        if reason is None and again is not None and key not in again:
            reason = before.get(key)
        if reason is None:
            equivalence_class = class_of[key]
            reason = by_class.get(equivalence_class)
            if reason is None:
                scheduled = state.as_scheduled(key)
                reason = _class_reason(scheduled, equivalence_class, state, cache, decision)
                by_class[equivalence_class] = reason
        if not reason.never_fits:
            position += 1
            reason = reason.at(position, before.get(key))
        waiting[key] = reason
    return waiting


def _class_reason(
    job: Job,
    equivalence_class: EquivalenceClass,
    state: SchedulerState,
    cache: UnschedulableCache,
    decision: Decision,
) -> WaitingReason:
    """Return why the jobs of a class wait; ``job`` is one of them."""
    rejection = cache.rejections.get(equivalence_class)
    if rejection is not None:
        return rejection.reason or reasons.waiting_for_others(
            job, state.capacity(IDLE), state.cluster_capacity, state.policies.placement
        )
    # The cycle did not try it: a job before it blocks the GPUs, or the cycle was truncated.
    classes = [gpu_class for gpu_class, _ in state.capacity(IDLE).choices(job)]
    blocker = cache.blocker(classes) if classes else cache.all_blocked_from
    if decision.truncated and (blocker is None or not all(each in cache.blocked_from for each in classes)):
        return reasons.not_reached()
    assert blocker is not None
    unschedulable = state.cluster_capacity.unschedulable_reason(job.demand, equivalence_class.avoided)
    return unschedulable or reasons.behind(blocker[-1])
