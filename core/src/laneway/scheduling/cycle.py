"""One scheduling cycle: the actions, in order, on every job that is worth a try."""

from __future__ import annotations

from laneway.scheduling.actions.allocate import allocate, pipeline
from laneway.scheduling.actions.model_rounds import reassign
from laneway.scheduling.actions.preempt import preempt_for
from laneway.scheduling.actions.rescale import rescale_chosen, rescale_requested
from laneway.scheduling.actions.reserve import reserve
from laneway.scheduling.actions.resume import resume
from laneway.scheduling.actions.separate import separate
from laneway.scheduling.actions.stop import stop_suspended
from laneway.scheduling.explain import reasons
from laneway.scheduling.framework.cycle_queue import CycleQueue, Head
from laneway.scheduling.framework.session import Session
from laneway.scheduling.gpus.views import IDLE
from laneway.scheduling.model.plan import Decision, WaitingReason
from laneway.scheduling.model.snapshot import Job
from laneway.scheduling.state.ranking import FIRST
from laneway.scheduling.state.scheduler_state import SchedulerState


def run_cycle(session: Session) -> Decision:
    """Decide about all jobs, in order: each takes what it needs of what the jobs before it left.

    Running jobs keep their GPUs unless they are preempted. What is pipelined lasts for this cycle only: the next one finds
    the releasing jobs where they are, and comes to the same conclusion or to a better one. So nothing is ever held for half
    a gang.
    """
    cache, decision = session.cache, session.decision

    # 1. Stop the jobs that end for reasons of their own.
    stop_suspended(session)
    rescale_chosen(session)
    separate(session)
    reassign(session)

    # 2. Drop cached rejections that may not hold any more, and queue the jobs that are worth a try.
    cache.review(session.now_seconds, something_stops=bool(decision.preemptions))
    queue = CycleQueue(session.state, cache)

    # 3. Take the jobs in order, as long as more may start.
    while queue and len(decision.starts) < session.max_starts:
        head = queue.pop()

        # 4. A paused job resumes in place, or waits on.
        if head.equivalence_class is None:
            resume(session, head.sort_key)

        # 5. A waiting job starts, is pipelined, preempts others, or waits; see schedule_one.
        elif not cache.is_blocked(head.sort_key) and schedule_one(session, head):
            queue.push_next(head)
            if session.preemptors:
                queue.retry_rejected_after(head.sort_key)

    # 6. Running jobs restart with the number of workers that their users ask for, if nothing is left to start.
    if not queue:
        rescale_requested(session, not_admitted)

    # 7. Report what was not reached, and keep the rejections if this cycle changes nothing about them.
    decision.truncated = bool(queue)
    decision.waiting.update(
        {key: reasons.not_reached() for key in queue.paused() if key not in decision.preemptions}
    )
    full = session.preemptors >= session.max_preemptors  # some may have been rejected for that alone
    cache.end_cycle(valid=not decision.preemptions and not session.reservations and not full)
    return decision


def schedule_one(session: Session, head: Head) -> bool:
    """Decide about one waiting job; return whether the next job of its equivalence class is worth a try."""
    state, cache, sort_key, equivalence_class = (
        session.state,
        session.cache,
        head.sort_key,
        head.equivalence_class,
    )
    assert equivalence_class is not None
    job = state.as_scheduled(sort_key[-1])

    # a. It must fit the nodes that are usable now, if no other job were there.
    unschedulable = state.cluster_capacity.unschedulable_reason(job.demand, equivalence_class.avoided)
    if unschedulable is not None:
        cache.reject(equivalence_class, sort_key, unschedulable)
        return False

    # b. The elastic and the admission policies must let it compete.
    refusal = not_admitted(state, job, session.now_seconds)
    if refusal is not None:
        session.decision.waiting[job.key] = refusal
        return True

    # c. No job before it may block, or have reserved, all GPUs that it could use.
    closed = session.closed_nodes(job, sort_key)
    blocked = _blocked(session, job, head, closed)
    if blocked is not None:
        cache.reject(equivalence_class, sort_key, blocked)
        return False

    # d. It starts on idle GPUs, or gets GPUs as soon as others have released them.
    with state.kept_off(job.key, closed):
        if allocate(session, job, equivalence_class, everywhere=not closed):
            return True
        found = pipeline(session, job) or preempt_for(session, job, sort_key)

    # e. It waits. If it goes first, GPUs are reserved for it.
    if not found and sort_key[1] == FIRST and not closed and reserve(session, job, sort_key):
        return True
    return _wait(session, job, head, found=found, closed=bool(closed))


def _blocked(session: Session, job: Job, head: Head, closed: frozenset[int]) -> WaitingReason | None:
    """Return why a job before this one keeps it off all GPUs that it could use; None: not of all."""
    state, cache = session.state, session.cache
    blocker = cache.blocker(gpu_class for gpu_class, _ in state.capacity(IDLE).choices(job))
    if blocker is not None and blocker < head.sort_key:
        return reasons.behind(blocker[-1])
    if (
        closed and head.sort_key[1] != FIRST
    ):  # if it goes first, later jobs of its class may backfill where it may not
        assert head.equivalence_class is not None
        closed_to_it = head.equivalence_class.avoided | closed
        if state.cluster_capacity.unschedulable_reason(job.demand, closed_to_it) is not None:
            return reasons.behind_reservation(session.first_reserved())
    return None


def _wait(session: Session, job: Job, head: Head, *, found: bool, closed: bool) -> bool:
    """Let a job wait; later jobs may pass, unless the order policy says no. Return whether the next of its class is worth a try."""
    state, cache, sort_key = session.state, session.cache, head.sort_key
    assert head.equivalence_class is not None
    if closed and not found and sort_key[1] == FIRST:
        session.decision.waiting[job.key] = reasons.behind_reservation(session.first_reserved())
        return True
    blocks = cache.blocks_later_jobs(sort_key, session.now_seconds)
    if blocks and head.equivalence_class.avoided:
        session.close_nodes(job, sort_key)
        if not found:
            session.decision.waiting[job.key] = reasons.waiting_for_others(
                job, state.capacity(IDLE), state.cluster_capacity, state.policies.placement
            )
        return True
    if blocks:
        cache.block((gpu_class for gpu_class, _ in state.capacity(IDLE).choices(job)), sort_key)
    if not found:
        cache.reject(head.equivalence_class, sort_key, None, blocks_later_jobs=blocks)
    return found


def not_admitted(state: SchedulerState, job: Job, now_seconds: float) -> WaitingReason | None:
    """Return why the elastic or an admission policy holds a waiting job back; None if it may compete."""
    if job.demand.elastic and state.gets_no_workers(job.key):  # a suggestion may be a fixed size
        return reasons.no_workers(job, state.elastic_gpus, state.worker_counts)
    if state.round.holds_back(job.key):
        return reasons.awaiting_round()
    for policy in state.policies.admission:
        refusal = policy.refusal(job, state.capacity(IDLE), now_seconds)
        if refusal is not None:
            return refusal
    return None
