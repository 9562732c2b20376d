"""Jobs as the planner sees them."""

from __future__ import annotations

from laneway.api import quantity
from laneway.api.clock_text import to_seconds
from laneway.api.training_job import ConditionType, ProfileStatus, TrainingJobStatus
from laneway.operator import accounting, transitions
from laneway.operator.progress import expected_seconds
from laneway.operator.records.job_record import preemptible
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.standing import Standing
from laneway.operator.templates import KnownTemplate, from_node, larger
from laneway.scheduling import Job, JobState
from laneway.scheduling.measured_profile import profile_of


def planner_job(
    standing: Standing, pods: tuple[WorkerPod, ...], template: KnownTemplate, now_seconds: float
) -> Job:
    """Return a job as the planner sees it; the same at any moment until something about it changes.

    Args:
        standing: where it stands; it has a state and a valid spec.
        pods: all of its pods.
        template: what is known of its template.
        now_seconds: Unix time.
    """
    job, wish, state = standing.job, standing.job.wish, standing.state
    assert wish is not None
    assert state is not None
    status, waiting = job.status, job.status.waiting
    counted = _counted_profile(standing, pods, template)
    running = state is JobState.RUNNING
    return Job(
        key=job.key,
        demand=wish.demand,
        created_seconds=job.created_seconds,
        uid=job.uid,
        state=state,
        placement=standing.holds,
        priority=standing.priority,
        attained_service_gpu_seconds=accounting.attained_gpu_seconds(status),
        executed_seconds=accounting.executed_seconds(status),
        as_of_seconds=_counted_at_seconds(status),
        service_rate_gpus=accounting.held_gpus(status.placement) if running else None,
        waiting_since_seconds=to_seconds(waiting.since) if waiting and waiting.since else None,
        started_seconds=transitions.since_seconds(status, ConditionType.RUNNING, now_seconds)
        if running
        else None,
        service_at_promotion_gpu_seconds=float(quantity.parse(status.service_at_promotion)),
        expected_seconds=_expected_seconds(status, template, now_seconds),
        profile=None if counted is None else profile_of(counted),
        preemptible=preemptible(wish.spec) and not standing.coming_back,
        parkable=standing.parkable,
        suspended=wish.spec.suspend,
    )


def _counted_at_seconds(status: TrainingJobStatus) -> float | None:
    """Return up to when service is counted in the status; None where it does not grow."""
    return None if status.service_counted_at is None else to_seconds(status.service_counted_at)


def _expected_seconds(status: TrainingJobStatus, template: KnownTemplate, now_seconds: float) -> float | None:
    """Return how long the job runs in all. What has run and what remains add up to the same at any moment, so a moment is taken that
    is in the status: then it is the same to the last bit whenever it is asked for."""
    progress, counted_seconds = status.progress, _counted_at_seconds(status)
    if counted_seconds is not None and progress is not None and progress.updated_at is not None:
        now_seconds = max(counted_seconds, to_seconds(progress.updated_at))
        status = accounting.counted(status, now_seconds)
    return expected_seconds(status, now_seconds, template.expected_seconds)


def _counted_profile(
    standing: Standing, pods: tuple[WorkerPod, ...], template: KnownTemplate
) -> ProfileStatus | None:
    """Return what the node counts a job's workers with, or will: what was measured, and what was known when they were made."""
    job = standing.job
    mine = [pod for pod in pods if pod.attempt == job.status.attempt]
    if job.placed and mine:
        written = mine[0].profile
        known = None if written is None else from_node(written)
    else:
        known = template.profile
    own = job.status.profile
    if own is None or known is None:
        return own or known
    return larger(own, known)
