"""Gives every waiting job its reason and its position, after a cycle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.unschedulable_cache import UnschedulableCache
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.plan import Decision, WaitingReason
from laneway.scheduling.model.snapshot import JobState
from laneway.scheduling.state.scheduler_state import SchedulerState
from laneway.scheduling.state.waiting_queue import EquivalenceClass


def waiting_reasons(
    order: Sequence[str], state: SchedulerState, cache: UnschedulableCache, decision: Decision
) -> Mapping[str, WaitingReason]:
    """Return why each waiting job waits, in order; jobs that can never run have no position.

    Args:
        order: all jobs, the first one first.
        state: as the cycle left it.
        cache: as the cycle left it.
        decision: the cycle's.
    """
    by_class: dict[EquivalenceClass, WaitingReason] = {}
    waiting: dict[str, WaitingReason] = {}
    position = 0
    for key in order:
        job = state.jobs[key]
        if key in decision.starts or not (job.state is JobState.WAITING or key in decision.waiting):
            continue
        if job.suspended:
            waiting[key] = reasons.suspended()
            continue
        reason = decision.waiting.get(key) or _cached_reason(key, state, cache, decision, by_class)
        if not reason.never_fits:
            position += 1
            reason = reason.at(position)
        waiting[key] = reason
    return waiting


def _cached_reason(
    key: str,
    state: SchedulerState,
    cache: UnschedulableCache,
    decision: Decision,
    by_class: dict[EquivalenceClass, WaitingReason],
) -> WaitingReason:
    """Return the reason of a job by its equivalence class; reasons computed here are added to ``by_class``."""
    equivalence_class = state.queue.class_of[key]
    rejection = cache.rejections.get(equivalence_class)
    if (
        rejection is None
    ):  # the cycle did not try it: a job before it blocks the GPUs, or the cycle was truncated
        job = state.as_scheduled(key)
        classes = [gpu_class for gpu_class, _ in state.capacity(IDLE).choices(job)]
        blocker = cache.blocker(classes) if classes else cache.all_blocked_from
        if decision.truncated and (
            blocker is None or not all(each in cache.blocked_from for each in classes)
        ):
            return reasons.not_reached()
        assert blocker is not None
        unschedulable = state.cluster_capacity.unschedulable_reason(job.demand, equivalence_class.avoided)
        return unschedulable or reasons.behind(blocker[-1])
    if rejection.reason is not None:
        return rejection.reason
    if equivalence_class not in by_class:
        by_class[equivalence_class] = reasons.waiting_for_others(
            state.as_scheduled(key), state.capacity(IDLE), state.cluster_capacity, state.policies.placement
        )
    return by_class[equivalence_class]
