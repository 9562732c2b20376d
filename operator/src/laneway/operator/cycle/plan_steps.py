"""The step that a decision wants of a job: start, yield, resume, or wait with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laneway.api.job_conditions import ConditionType
from laneway.api.job_names import VisibleJobs, jobs_elsewhere, namespace_of, sentence_for, visible_jobs
from laneway.api.training_job_status import MOST_BLOCKERS, TrainingJobStatus, WaitingStatus
from laneway.operator.lifecycle import pausing, rescale_pending, transitions
from laneway.operator.lifecycle.admission import ACCEPTED
from laneway.operator.lifecycle.goodput import chosen_batch
from laneway.operator.lifecycle.reconciled_job import JobEvent, ReconciledJob, suspension_event
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import (
    Decision,
    JobState,
    Preemption,
    PreemptionAction,
    PreemptionReason,
    WaitingCode,
    WaitingReason,
    WorkerPlacement,
)
from laneway.scheduling.explain.reasons import format_seconds
from laneway.scheduling.model.held_rescale import HeldRescale

_PREEMPTED = {
    PreemptionAction.PAUSE: "is paused",
    PreemptionAction.OFFLOAD: "is offloaded",
    PreemptionAction.EVICT: "is evicted",
}

WithEstimate = Callable[[str, WaitingStatus, WaitingStatus | None], WaitingStatus]
"""Adds estimates and suggestions to a job's reason; the third argument is what its status has now."""


def with_decision(
    reconciled: ReconciledJob,
    decision: Decision,
    reason: WaitingReason | None,
    *,
    queue: int | None,
    promoted: bool,
    pods: tuple[WorkerPod, ...],
    now_seconds: float,
    with_estimate: WithEstimate,
    refused: Callable[[], str],
    held_rescale: HeldRescale | None = None,
    elastic_policy: str = "",
) -> ReconciledJob:
    """Return a job after the step that a decision wants of it.

    Args:
        reconciled: the job.
        decision: what the scheduler decided.
        reason: why the job waits; None: it does not, or that was not worked out now.
        queue: the job's queue; None: the scheduler does not know the job.
        promoted: whether it is promoted.
        pods: its pods.
        now_seconds: Unix time.
        with_estimate: see :data:`WithEstimate`.
        refused: says to which nodes its template does not let it, as a sentence.
        held_rescale: why it keeps its workers though its user asks for others; None if the user does not.
        elastic_policy: what chooses the number of an elastic job's workers; empty: ``spec.workers`` does.
    """
    job, status = reconciled.job, reconciled.job.status
    if reconciled.state is None:
        return reconciled
    if queue is not None and not job.finished:
        status = transitions.changed(status, queue=queue)
    if promoted:
        status = transitions.changed(
            status, service_at_promotion_gpu_milliseconds=status.attained_service_gpu_milliseconds
        )
    events: tuple[JobEvent, ...] = ()
    starts = decision.starts.get(job.key)
    elastic = job.desired is not None and job.desired.spec.elastic
    if elastic and (starts or status.placement):
        status, events = rescale_pending.left_to_policy(status, elastic_policy, now_seconds)
    if (workers := starts) is not None:
        started = _start(reconciled.becomes(status), workers, now_seconds, elastic=elastic)
        return replace(started, events=(*started.events, *events))
    if (preemption := decision.preemptions.get(job.key)) is not None:
        rescaled_to = decision.rescales.get(job.key, 0)
        return _preempt(reconciled.becomes(status, *events), preemption, rescaled_to, pods, now_seconds)
    if job.key in decision.resumes:
        event = JobEvent("Resumed", "Resumed in place: its GPUs are free.")
        resumed = reconciled.becomes(transitions.resumed(status, now_seconds), event, *events)
        return replace(resumed, state=JobState.RUNNING)
    status, pending = rescale_pending.held(status, held_rescale, now_seconds)
    events = (*events, *pending)
    if reason is not None:
        status = _explained(job.key, status, reason, now_seconds, with_estimate, refused)
        reconciled = replace(reconciled, waits_for=reason.blockers)
        events = (*events, *_suspended(job.status, reason))
        if reason.code is WaitingCode.AWAITING_PREEMPTION:
            victims = [each for each in decision.preemptions.values() if each.preemptor == job.key]
            reconciled = replace(reconciled, awaits=frozenset(each.job for each in victims))
            events = (*events, *_preempting(victims, job.namespace))
    return reconciled.becomes(status, *events)


def _start(
    reconciled: ReconciledJob, workers: tuple[WorkerPlacement, ...], now_seconds: float, *, elastic: bool
) -> ReconciledJob:
    status = reconciled.job.status
    batch = chosen_batch(status, workers) if elastic else 0
    status = transitions.placed(status, workers, now_seconds, batch)
    message = "; ".join(f"worker {each.worker} on {each.node}: {', '.join(each.gpus)}" for each in workers)
    event = JobEvent("Placed", f"Placed {message} (attempt {status.attempt}).")
    # In one write with the placement, that the spec is valid is worth no event of its own.
    before = tuple(each for each in reconciled.events if each.reason != ACCEPTED)
    started = reconciled.becomes(status)
    return replace(started, events=(*before, event), state=JobState.STARTING, holds=workers)


def _preempt(
    reconciled: ReconciledJob,
    preemption: Preemption,
    workers: int,
    pods: tuple[WorkerPod, ...],
    now_seconds: float,
) -> ReconciledJob:
    """Pause, offload or evict a job, or stop it because it is suspended or rescaled to a number of workers."""
    status, reason, namespace = reconciled.job.status, str(preemption.reason), reconciled.job.namespace
    message = sentence_for(preemption.message, namespace)
    preemptor, cost_seconds = preemption.preemptor, preemption.cost_seconds
    others = () if isinstance(preemption.message, str) else preemption.message.jobs
    if preemptor is not None and namespace_of(preemptor) != namespace:
        preemptor = None  # it is in the log only
    mine = tuple(pod for pod in pods if pod.attempt == status.attempt)
    reconciled = replace(reconciled, victims=mine)
    if preemption.action is not PreemptionAction.EVICT:
        status = transitions.asked_to_pause(
            status, preemption.action, reason, message, now_seconds, preemptor, cost_seconds
        )
        instruction = f"The job is told to {pausing.WORDS[preemption.action]}; expected cost {format_seconds(cost_seconds)}."
        return reconciled.becomes(status, JobEvent("Preempted", f"{message} {instruction}", others=others))
    if preemption.reason is PreemptionReason.SUSPENDED:
        status = transitions.suspended(status, message, now_seconds)
        event = suspension_event(message, pods)
    elif preemption.reason is PreemptionReason.RESCALING:
        status = transitions.rescaled(status, workers, message, now_seconds)
        event = JobEvent(transitions.RESCALING, message)
    else:
        status = transitions.preempted(status, reason, message, now_seconds, preemptor, cost_seconds)
        consequence = (
            f" Its pods end; expected cost {format_seconds(cost_seconds)}." if cost_seconds > 0 else ""
        )
        event = JobEvent("Preempted", message + consequence, others=others)
    pods_to_delete = tuple(pod for pod in pods if not pod.deleting)
    return replace(
        reconciled.becomes(status, event), state=JobState.TERMINATING, pods_to_delete=pods_to_delete
    )


def _preempting(victims: list[Preemption], namespace: str) -> tuple[JobEvent, ...]:
    """Return what the victims of a job of a namespace do, as one event; none where it has none. Figures are of jobs that are named only."""
    if not victims:
        return ()
    victims = sorted(victims, key=lambda each: each.job)
    parts = [
        f"{each.job} {_PREEMPTED[each.action]} ({each.reason}, expected cost {format_seconds(each.cost_seconds)})"
        for each in victims
        if namespace_of(each.job) == namespace
    ]
    for action, what in _PREEMPTED.items():
        number = sum(each.action is action and namespace_of(each.job) != namespace for each in victims)
        if number:
            parts.append(f"{jobs_elsewhere(number)} {what if number == 1 else what.replace('is ', 'are ')}")
    message = f"Preempting other jobs: {'; '.join(parts)}."
    return (JobEvent("Preempting", message, others=tuple(each.job for each in victims)),)


def _suspended(status: TrainingJobStatus, reason: WaitingReason) -> tuple[JobEvent, ...]:
    """Return the event of a waiting job that is suspended; a job with workers gets its event when they are told to end."""
    placed = transitions.condition(status, ConditionType.PLACED)
    if reason.code is not WaitingCode.SUSPENDED or (placed is not None and placed.reason == str(reason.code)):
        return ()
    return (JobEvent("Suspended", str(reason.message)),)


def explains(key: str, status: TrainingJobStatus, reason: WaitingReason, refused: Callable[[], str]) -> bool:
    """Whether a job's status already gives this reason, and names the nodes that the job's template excludes."""
    waiting, namespace = status.waiting, namespace_of(key)
    return (
        waiting is not None
        and waiting.position == reason.position
        and waiting.reason == str(reason.code)
        and waiting.message.startswith(sentence_for(reason.message, namespace))
        and waiting.unblock == reason.unblock
        and (waiting.blockers, waiting.blockers_elsewhere) == _blockers(reason, namespace)
        and (reason.code is not WaitingCode.NODES_UNAVAILABLE or refused() in waiting.message)
    )


def has_another_reason(status: TrainingJobStatus, reason: WaitingReason) -> bool:
    """Whether a job waits for another reason than its status has."""
    return status.waiting is None or status.waiting.reason != str(reason.code)


def _blockers(reason: WaitingReason, namespace: str) -> VisibleJobs:
    """Return the jobs that a job waits for, as its status names them; there may be as many as GPUs."""
    own, elsewhere = visible_jobs(reason.blockers, namespace)
    return VisibleJobs(own[:MOST_BLOCKERS], elsewhere)


def _explained(
    key: str,
    status: TrainingJobStatus,
    reason: WaitingReason,
    now_seconds: float,
    with_estimate: WithEstimate,
    refused: Callable[[], str],
) -> TrainingJobStatus:
    """Return the status of a waiting job with why it waits."""
    lately = (f"Kept away from {each.node} until {each.until}: {each.message}." for each in status.avoid)
    by_template = refused() if reason.code is WaitingCode.NODES_UNAVAILABLE else ""
    namespace = namespace_of(key)
    message = " ".join(filter(None, [sentence_for(reason.message, namespace), by_template, *lately]))
    blockers, blockers_elsewhere = _blockers(reason, namespace)
    waiting = WaitingStatus(
        reason=str(reason.code),
        message=message,
        unblock=reason.unblock,
        position=reason.position,
        since=status.waiting.since if status.waiting else None,
        blockers=blockers,
        blockers_elsewhere=blockers_elsewhere,
    )
    status = transitions.changed(status, waiting=with_estimate(key, waiting, status.waiting))
    if status.preemption is not None and status.placement:
        return status  # it is paused, and keeps its GPUs
    return transitions.with_conditions(
        status, now_seconds, (ConditionType.PLACED, False, waiting.reason, message)
    )
