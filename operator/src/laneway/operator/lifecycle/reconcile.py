"""What a cycle notes about one job before it plans: what happened to its workers, and whether the planner is to see it.

``reconcile`` is a pure function of the job, its pods and its nodes. It applies all status transitions that are due, and
returns the pods to delete. The scheduler then decides what the job does next, from all reconciled jobs.

    admission ─▶ an attempt: gang (result), pausing ─▶ attempt_end ─▶ between_attempts ─▶ the plan, or the next attempt
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from laneway.api.attempt_status import AttemptOutcome
from laneway.api.job_conditions import ALL_WORKERS_RUN, PAUSED_BY_ORDER, WAITING_FOR_LANE, ConditionType
from laneway.api.training_job_status import ExecutionStatus, TrainingJobStatus, WaitingStatus
from laneway.operator.lifecycle import pausing, rescaling, transitions
from laneway.operator.lifecycle.admission import admit
from laneway.operator.lifecycle.attempt_end import end_attempt
from laneway.operator.lifecycle.between_attempts import after_the_end, had_succeeded, leaving, wait
from laneway.operator.lifecycle.cpus import cpus_of
from laneway.operator.lifecycle.deadline import deadline_due_seconds, past_deadline
from laneway.operator.lifecycle.execution import executed
from laneway.operator.lifecycle.gang import (
    Attempt,
    AttemptResult,
    Outcome,
    due_on_sick_gpus_seconds,
    evaluate_attempt,
    has_run,
)
from laneway.operator.lifecycle.goodput import goodput_seen
from laneway.operator.lifecycle.progress import progress_made
from laneway.operator.lifecycle.reconciled_job import (
    JobEvent,
    ReconcileContext,
    ReconciledJob,
    suspension_event,
)
from laneway.operator.lifecycle.times_alone import with_times_alone
from laneway.operator.lifecycle.unsaved_work import with_saved_work
from laneway.operator.pacing import WATCHED_SECONDS
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.template_hash import same_script
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.operator.state.sessions import (
    actual_gpus,
    measured_profile,
    paused,
    restored,
    saved_works,
    turns_taken,
    without_lane,
)
from laneway.scheduling import JobState, PreemptionAction, WorkerPlacement


@dataclass(frozen=True, slots=True)
class _Terms:
    """What an attempt is held to. Of a spec that became wrong while the job ran, only what the status says is left."""

    workers: int
    backoff_limit: int
    deadline_seconds: int | None


def reconcile(job: JobRecord, pods: tuple[WorkerPod, ...], context: ReconcileContext) -> ReconciledJob:
    """Return where the job stands after what happened to it."""
    if job.malformed_status or not job.managed:
        return ReconciledJob(job, None)
    mine = tuple(pod for pod in pods if pod.attempt == job.status.attempt)
    # Nodes report the last figures of a worker when it has ended already, so this comes before every other question.
    measured = _measured(job, mine, context)
    reconciled = ReconciledJob(job, None).becomes(measured, *_warnings(job.status, measured))
    if job.finished:
        return leaving(after_the_end(reconciled, context), pods, context)
    if job.deleting:
        return leaving(reconciled, pods, context)
    reconciled = reconciled.becomes(
        transitions.first_visited(reconciled.job.status, job.created_seconds, context.now_seconds)
    )
    reconciled = reconciled.becomes(rescaling.with_selector(reconciled.job))
    reconciled = admit(reconciled, pods, context)
    if job.desired is not None:
        suspended = job.desired.spec.suspend and not job.placed
        status = transitions.with_suspension(reconciled.job.status, context.now_seconds, suspended=suspended)
        reconciled = reconciled.becomes(status)
    if job.placed:
        reconciled = _follow(reconciled, _terms(job), pods, context)
    elif (succeeded := had_succeeded(reconciled, pods, context)) is not None:
        return leaving(after_the_end(succeeded, context), pods, context)
    if reconciled.job.placed and not reconciled.job.finished:
        return reconciled if job.desired is not None else _unplannable(reconciled)
    return wait(leaving(reconciled, pods, context), pods, context)


def _terms(job: JobRecord) -> _Terms:
    if job.desired is None:
        return _Terms(max(1, len(job.status.placement)), job.status.restarts + 1, None)
    spec = job.desired.spec
    return _Terms(job.attempt_workers, spec.backoff_limit, spec.active_deadline_seconds)


def _unplannable(reconciled: ReconciledJob) -> ReconciledJob:
    """A job whose spec became wrong while it runs goes on; the planner sees foreign tenants on its GPUs that cannot move."""
    return replace(reconciled, state=None, holds=())


def _follow(
    reconciled: ReconciledJob, terms: _Terms, pods: tuple[WorkerPod, ...], context: ReconcileContext
) -> ReconciledJob:
    """Judge the current attempt, and take the step that the result demands."""
    job, now_seconds = reconciled.job, context.now_seconds
    if len(job.status.placement) != terms.workers:
        message = f"The status places {len(job.status.placement)} of {terms.workers} workers; the attempt is rolled back."
        outcome = AttemptOutcome.ROLLED_BACK
        lost = transitions.unplaced(job.status, outcome, "PlacementLost", message, now_seconds, now_seconds)
        return reconciled.becomes(lost, JobEvent("Rollback", message, warning=True))
    mine = tuple(pod for pod in pods if pod.attempt == job.status.attempt)
    pause, kept = pausing.pause_action(job.status), transitions.kept_reason(job.status)
    attempt = Attempt(
        workers=terms.workers,
        placed_seconds=transitions.since_seconds(job.status, ConditionType.PLACED, now_seconds),
        was_running=job.running or pause is not None or bool(kept),
        pods=mine,
        placed_on={each.worker: each.node for each in job.status.placement},
        refused=context.refusals.get((job.uid, job.status.attempt), ""),
    )
    result = evaluate_attempt(attempt, context)
    starts = result.started_seconds is not None and not attempt.was_running
    if starts:
        reconciled = _start(reconciled, attempt, result, now_seconds)
    no_turn = job.status.turns == job.status.turns_before_attempt
    unseen = no_turn and pause is None and _unwatched(job.status, context)
    if (starts or unseen) and any(without_lane(pod, context.state.sessions) for pod in mine):
        # As far as is known, it has had no lane yet in this attempt: the time is not charged, and its wait continues.
        status = transitions.changed(
            reconciled.job.status, service_counted_at=None, waiting=job.status.waiting
        )
        reconciled = reconciled.becomes(status)
    if result.outcome not in (Outcome.STARTING, Outcome.RUNNING):
        return end_attempt(reconciled, terms.backoff_limit, result, context, ran=has_run(attempt))
    strays = tuple(pod for pod in pods if pod.attempt != job.status.attempt and not pod.deleting)
    reconciled = replace(reconciled, pods_to_delete=strays)
    if (over := past_deadline(reconciled, terms.deadline_seconds, now_seconds)) is not None:
        return over
    if pause is not None:
        return _follow_pause(reconciled, pause, terms.deadline_seconds, mine, context)
    return _go_on(reconciled, terms, mine, result, context)


def _unwatched(status: TrainingJobStatus, context: ReconcileContext) -> bool:
    """Whether a job may have been without a lane since its start, as far as this replica has seen."""
    running_seconds = transitions.since_seconds(status, ConditionType.RUNNING, context.now_seconds)
    watched_seconds = context.now_seconds - max(running_seconds, context.watched_since_seconds)
    return watched_seconds < WATCHED_SECONDS and transitions.counts_since_start(status)


def _start(
    reconciled: ReconciledJob, attempt: Attempt, result: AttemptResult, now_seconds: float
) -> ReconciledJob:
    assert result.started_seconds is not None
    # Containers' times have whole seconds and the node's own clock: never before the placement, never in the future.
    start_seconds = min(now_seconds, max(result.started_seconds, attempt.placed_seconds))
    workers = "The worker runs" if attempt.workers == 1 else f"All {attempt.workers} workers run"
    status = transitions.started(reconciled.job.status, ALL_WORKERS_RUN, f"{workers}.", start_seconds)
    nodes = ", ".join(sorted({worker.node for worker in status.placement}))
    started = JobEvent("Started", f"{workers} on {nodes} (attempt {status.attempt}).")
    return reconciled.becomes(status, started, *rescaling.completion(reconciled.job.status, status))


def _go_on(
    reconciled: ReconciledJob,
    terms: _Terms,
    mine: tuple[WorkerPod, ...],
    result: AttemptResult,
    context: ReconcileContext,
) -> ReconciledJob:
    status, now_seconds = reconciled.job.status, context.now_seconds
    if result.outcome == Outcome.STARTING:
        waiting = status.waiting or WaitingStatus(reason=transitions.STARTING, message="")
        waiting = waiting.model_copy(
            update={"reason": transitions.STARTING, "message": result.message, "unblock": ""}
        )
        status = transitions.changed(status, waiting=waiting)
        placed_seconds = transitions.since_seconds(status, ConditionType.PLACED, now_seconds)
        due_seconds = placed_seconds + context.timeouts.gang_timeout_seconds
    else:
        due_seconds = deadline_due_seconds(status, terms.deadline_seconds, now_seconds)
    running = result.outcome == Outcome.RUNNING
    state = JobState.RUNNING if running else JobState.STARTING
    events: tuple[JobEvent, ...] = ()
    back_seconds = math.inf
    if running:
        back_seconds = pausing.coming_back_until_seconds(status, mine, context)
        status, events = _kept_or_free(status, mine, context, coming_back=back_seconds < math.inf)
    return replace(
        _holding(reconciled.becomes(_corrected(status, mine, context), *events), state),
        pausable=running and pausing.can_pause(mine, context.state.sessions),
        coming_back=back_seconds < math.inf,
        due_seconds=min(due_seconds, due_on_sick_gpus_seconds(mine, context), back_seconds),
    )


def _kept_or_free(
    status: TrainingJobStatus, mine: tuple[WorkerPod, ...], context: ReconcileContext, *, coming_back: bool
) -> tuple[TrainingJobStatus, tuple[JobEvent, ...]]:
    """Return the status of a job whose workers all run, by whether one of them is kept from its GPU; a gang runs only with all of them."""
    kept = transitions.kept_reason(status)
    unsure = coming_back and kept != PAUSED_BY_ORDER
    reason = PAUSED_BY_ORDER
    message = next((text for pod in mine if (text := _paused_by_order(pod, context, unsure=unsure))), "")
    if not message:
        reason = WAITING_FOR_LANE
        # A job that was not kept from its GPUs runs while it comes back from a preemption, and so while its memory does.
        looks = (without_lane, restored) if kept else (without_lane,)
        said = (look(pod, context.state.sessions) for look in looks for pod in mine)
        message = next(filter(None, said), "")
    if message:
        events = () if kept == reason else (JobEvent(reason, message),)
        return transitions.kept_from_gpus(status, reason, message, context.now_seconds), events
    if not kept:
        return status, ()
    return transitions.freed(status, context.now_seconds), (JobEvent(*transitions.FREED[kept]),)


def _paused_by_order(pod: WorkerPod, context: ReconcileContext, *, unsure: bool) -> str:
    """Return by which order a worker is paused that the operator did not give.

    Args:
        pod: the worker.
        context: what the nodes say.
        unsure: the job comes back from a preemption and may seem paused for a while; then only an order of somebody else in the GPUNode counts.
    """
    node = context.state.gpu_nodes.get(pod.node)
    if unsure and (node is None or pod.uid not in node.others_orders):
        return ""
    return paused(pod, context.state.sessions)


def _follow_pause(
    reconciled: ReconciledJob,
    depth: PreemptionAction,
    limit_seconds: int | None,
    mine: tuple[WorkerPod, ...],
    context: ReconcileContext,
) -> ReconciledJob:
    """Follow a job that was told to pause or offload."""
    status, now_seconds = reconciled.job.status, context.now_seconds
    assert status.preemption is not None
    if reconciled.job.desired is not None and reconciled.job.desired.spec.suspend:
        message = "Suspended by spec.suspend while preempted."
        suspended = transitions.suspended(status, message, now_seconds)
        return reconciled.becomes(suspended, suspension_event(message, mine))
    seen = pausing.look(status, depth, mine, context)
    if seen.in_vain:
        message = f"{status.preemption.message} {seen.in_vain[0].upper()}{seen.in_vain[1:]}."
        was = transitions.condition(status, ConditionType.PREEMPTED)
        reason = was.reason if was is not None else "HigherQueue"
        evicted = transitions.preempted(
            status, reason, message, now_seconds, preemptor=status.preemption.preemptor
        )
        return replace(reconciled.becomes(evicted, JobEvent("Preempted", message)), victims=mine)
    if seen.just_done:
        status = transitions.paused(status, now_seconds)
        reconciled = reconciled.becomes(
            status, JobEvent(transitions.PAUSED_REASONS[depth], f"{_PAUSED_WORDS[depth]}.")
        )
    reconciled = _holding(reconciled.becomes(_corrected(status, mine, context)), seen.state)
    deadline_seconds = deadline_due_seconds(status, limit_seconds, now_seconds)
    return replace(
        reconciled,
        # Who is paused can go further without ending; who is offloaded cannot.
        pausable=seen.state is JobState.PAUSED and pausing.can_pause(mine, context.state.sessions),
        due_seconds=min(seen.due_seconds, due_on_sick_gpus_seconds(mine, context), deadline_seconds),
    )


_PAUSED_WORDS = {
    PreemptionAction.PAUSE: "Its workers stopped between two iterations; their memory stays on the GPU",
    PreemptionAction.OFFLOAD: "Its workers stopped between two iterations; their memory is on the host",
}


def _holding(reconciled: ReconciledJob, state: JobState) -> ReconciledJob:
    """The job has what its placement says."""
    return replace(reconciled, state=state, holds=_as_plan(reconciled.job.status))


def _measured(job: JobRecord, mine: tuple[WorkerPod, ...], context: ReconcileContext) -> TrainingJobStatus:
    """Return the status with what the nodes measured of this attempt, which never goes back, and with the workers' CPUs."""
    status, sessions = job.status, context.state.sessions
    taken = status.turns_before_attempt + turns_taken(mine, sessions)
    profile = with_times_alone(measured_profile(mine, sessions), status, mine, sessions)
    if profile is not None and status.profile is not None:
        profile = profile.model_copy(update={"cpu_points": status.profile.cpu_points})
    execution = executed(status, mine, context.state, profiled=profile is not None)
    known = status.goodput if _runs_same_script(job, execution) else None
    goodput = goodput_seen(known, mine, sessions)
    progress = progress_made(status.progress, mine, sessions, context.now_seconds)
    if progress is not None and status.placement and status.completion_time is None:
        progress = with_saved_work(status, progress, saved_works(mine, sessions), context.now_seconds)
    return transitions.changed(
        rescaling.with_first_turn(status, taken, context),
        cpus=cpus_of(job.desired, mine),
        turns=max(status.turns, taken),
        profile=profile or status.profile,
        execution=execution,
        progress=progress,
        goodput=goodput,
    )


def _runs_same_script(job: JobRecord, execution: ExecutionStatus | None) -> bool:
    """Whether the attempt runs what the one did that was measured before it, with any number of workers."""
    before = job.status.execution
    if before is None or execution is None or before.template_hash == execution.template_hash:
        return True
    spec = None if job.desired is None else job.desired.spec
    return spec is not None and same_script(spec, before.template_hash, execution.template_hash)


def _warnings(before: TrainingJobStatus, after: TrainingJobStatus) -> tuple[JobEvent, ...]:
    """Return the event that tells the user once what an eviction would lose."""
    warning = after.progress.warning if after.progress is not None else ""
    if not warning or (before.progress is not None and before.progress.warning == warning):
        return ()
    return (JobEvent("UnsavedWork", warning, warning=True),)


def _corrected(
    status: TrainingJobStatus, mine: tuple[WorkerPod, ...], context: ReconcileContext
) -> TrainingJobStatus:
    """Return the status with the GPUs that the kubelets really gave, where these make a placement of distinct GPUs."""
    actual = {pod.rank: actual_gpus(pod, context.state.sessions) for pod in mine}
    placement = tuple(
        worker.model_copy(update={"gpus": actual[worker.worker]})
        if len(actual.get(worker.worker, ())) == len(worker.gpus)
        else worker
        for worker in status.placement
    )
    gpus = [gpu for worker in placement for gpu in worker.gpus]
    if placement == status.placement or len(set(gpus)) != len(gpus):
        return status
    return transitions.changed(status, placement=placement)


def _as_plan(status: TrainingJobStatus) -> tuple[WorkerPlacement, ...]:
    return tuple(
        WorkerPlacement(worker.worker, worker.node, worker.gpus, worker.share_percent)
        for worker in status.placement
    )
