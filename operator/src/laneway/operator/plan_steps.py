"""The step that a plan wants of a job: start, make way, go on, or wait and say why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laneway.api.job_standing import WaitingStatus
from laneway.api.training_job import ConditionType, TrainingJobStatus
from laneway.operator import parking, transitions
from laneway.operator.preemption_events import made_way_for, victims_for
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.standing import Happening, Standing
from laneway.scheduling import Depth, JobState, Plan, Preemption, PreemptionReason, WaitingCode, WaitingReason
from laneway.scheduling.explanation import seconds

Told = Callable[[str, WaitingStatus, WaitingStatus | None], WaitingStatus]
"""Adds to why a job waits what its user may want to know beyond it; the third argument is what the status says now."""


def with_plan(
    standing: Standing,
    planned: Plan,
    pods: tuple[WorkerPod, ...],
    now_seconds: float,
    told: Told,
    refused: str = "",
) -> Standing:
    """Take the step that the plan wants of a job; ``refused`` says to which nodes its template does not let it."""
    job = standing.job
    status = job.status
    if standing.state is None:
        return standing
    if job.key in planned.queues and not job.finished:
        status = transitions.changed(status, queue=planned.queues[job.key])
    if job.key in planned.promotions:
        status = transitions.changed(status, service_at_promotion=status.attained_service)
    if (workers := planned.starts.get(job.key)) is not None:
        status = transitions.placed(status, workers, now_seconds)
        message = "; ".join(
            f"worker {each.worker} on {each.node}: {', '.join(each.gpus)}" for each in workers
        )
        happening = Happening("Placed", f"attempt {status.attempt}: {message}")
        return replace(
            standing.becomes(status, happening), state=JobState.STARTING, holds=workers, present=frozenset()
        )
    if (preemption := planned.preemptions.get(job.key)) is not None:
        return _make_way(standing.becomes(status), preemption, pods, now_seconds)
    if job.key in planned.resumes:
        happening = Happening("Resumed", "The GPUs' turns are free again: it goes on where it is.")
        return replace(
            standing.becomes(transitions.resumed(status, now_seconds), happening), state=JobState.RUNNING
        )
    happenings: tuple[Happening, ...] = ()
    if (reason := planned.waiting.get(job.key)) is not None:
        status = explained(job.key, status, reason, now_seconds, told, refused)
        happenings = _suspended(standing.job.status, reason)
        if reason.code is WaitingCode.AWAITING_PREEMPTION:
            standing = replace(standing, awaits=victims_for(job.key, planned))
            happenings = (*happenings, *made_way_for(job.key, planned))
    return standing.becomes(status, *happenings)


def _make_way(
    standing: Standing, preemption: Preemption, pods: tuple[WorkerPod, ...], now_seconds: float
) -> Standing:
    """Have a job make way as far as the plan says."""
    status, reason, message = standing.job.status, str(preemption.reason), preemption.message
    mine = tuple(pod for pod in pods if pod.attempt == status.attempt)
    standing = replace(standing, yielding=mine)
    for_whom, cost_seconds = preemption.beneficiary, preemption.cost_seconds
    if preemption.depth is not Depth.EVICT:
        status = transitions.told_to_park(
            status, preemption.depth, reason, message, now_seconds, for_whom, cost_seconds
        )
        told = (
            f"It is told to {parking.WORDS[preemption.depth]}, which costs it about {seconds(cost_seconds)}."
        )
        return standing.becomes(status, Happening("Preempted", f"{message} {told}"))
    if preemption.reason is PreemptionReason.SUSPENDED:
        status = transitions.unplaced(status, "Suspended", message, now_seconds, now_seconds)
        happening = Happening("Suspended", message)
    else:
        status = transitions.preempted(status, reason, message, now_seconds, for_whom, cost_seconds)
        told = f" It ends, which costs it about {seconds(cost_seconds)}." if cost_seconds > 0 else ""
        happening = Happening("Preempted", message + told)
    doomed = tuple(pod for pod in pods if not pod.deleting)
    return replace(standing.becomes(status, happening), state=JobState.LEAVING, doomed=doomed)


def _suspended(status: TrainingJobStatus, reason: WaitingReason) -> tuple[Happening, ...]:
    """Tell that a job which waited is suspended; one that had workers is told when they are told to end."""
    placed = transitions.condition(status, ConditionType.PLACED)
    if reason.code is not WaitingCode.SUSPENDED or (placed is not None and placed.reason == str(reason.code)):
        return ()
    return (Happening("Suspended", reason.message),)


def says(status: TrainingJobStatus, reason: WaitingReason, refused: str) -> bool:
    """Whether a status says already why its job waits, and to which nodes its template does not let it."""
    waiting = status.waiting
    return (
        waiting is not None
        and waiting.position == reason.position
        and waiting.reason == str(reason.code)
        and waiting.message.startswith(reason.message)
        and waiting.unblock == reason.unblock
        and waiting.blockers == reason.blockers
        and (reason.code is not WaitingCode.NODES_UNAVAILABLE or refused in waiting.message)
    )


def explained(
    key: str, status: TrainingJobStatus, reason: WaitingReason, now_seconds: float, told: Told, refused: str
) -> TrainingJobStatus:
    """Return the status of a waiting job with why it waits."""
    lately = (f"Kept away from {each.node} until {each.until}: {each.message}." for each in status.avoid)
    by_template = (refused,) if refused and reason.code is WaitingCode.NODES_UNAVAILABLE else ()
    message = " ".join([reason.message, *by_template, *lately])
    waiting = WaitingStatus(
        reason=str(reason.code),
        message=message,
        unblock=reason.unblock,
        position=reason.position,
        since=status.waiting.since if status.waiting else None,
        blockers=reason.blockers,
    )
    status = transitions.changed(status, waiting=told(key, waiting, status.waiting))
    if status.preemption is not None and status.placement:
        return status  # it stands aside, and has its GPUs all the same
    return transitions.with_conditions(
        status, now_seconds, (ConditionType.PLACED, False, waiting.reason, message)
    )
