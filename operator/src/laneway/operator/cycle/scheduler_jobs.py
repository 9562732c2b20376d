"""Jobs as the planner sees them."""

from __future__ import annotations

import math
from dataclasses import replace

from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import parse_time
from laneway.api.training_job_status import ProfileStatus, TrainingJobStatus
from laneway.operator.cycle.template_evidence import larger
from laneway.operator.cycle.templates import KnownTemplate, from_node, template_of
from laneway.operator.lifecycle import accounting, transitions
from laneway.operator.lifecycle.between_attempts import late_seconds
from laneway.operator.lifecycle.cpus import points_of
from laneway.operator.lifecycle.goodput import goodput_of
from laneway.operator.lifecycle.progress import expected_seconds
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.lifecycle.unsaved_work import starts_over, unsaved_seconds
from laneway.operator.state.records.job_record import DesiredSpec, JobRecord, preemptible
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import Demand, HostResources, Job, JobState
from laneway.scheduling.model.cpu_points import merged, sensitivity_of
from laneway.scheduling.model.host_resources import CPU
from laneway.scheduling.model.measured_profile import profile_of
from laneway.scheduling.model.sensitivity import Sensitivity


def scheduler_job(
    reconciled: ReconciledJob,
    pods: tuple[WorkerPod, ...],
    template: KnownTemplate,
    now_seconds: float,
    *,
    elastic: bool = False,
) -> Job:
    """Return a job as the planner sees it; the same at any moment until something about it changes.

    Args:
        reconciled: where it stands; it has a state and a valid spec.
        pods: all of its pods.
        template: what is known of its template.
        now_seconds: Unix time.
        elastic: whether an elastic policy chooses the number of workers; else an elastic job has those that its spec asks for.
    """
    job, desired, state = reconciled.job, reconciled.job.desired, reconciled.state
    assert desired is not None
    assert state is not None
    status = job.status
    counted = _counted_profile(reconciled, pods, template)
    demand = _as_held(_demand(job, desired, state, elastic=elastic), reconciled, pods)
    running = state is JobState.RUNNING
    return Job(
        key=job.key,
        demand=demand,
        created_seconds=job.created_seconds,
        uid=job.uid,
        state=state,
        placement=reconciled.holds,
        priority=reconciled.priority,
        attained_service_gpu_seconds=accounting.attained_gpu_seconds(status),
        executed_seconds=accounting.executed_seconds(status),
        as_of_seconds=accounting.counted_at_seconds(status),
        service_rate_gpus=_service_rate_gpus(status) if running else None,
        waiting_since_seconds=accounting.competes_since_seconds(status),
        waited_before_seconds=accounting.waited_before_seconds(status),
        started_seconds=_started_seconds(status, pods, now_seconds) if running else None,
        service_at_promotion_gpu_seconds=status.service_at_promotion_gpu_milliseconds / 1000,
        expected_seconds=_expected_seconds(status, template, now_seconds),
        expected_on=_expected_on(status, template),
        speeds=template.speeds,
        profile=None if counted is None else profile_of(counted),
        template=template_of(job) or "",
        sensitivity=_sensitivity(reconciled, template),
        goodput=goodput_of(status) if elastic else None,
        cpu_floor_millis=None
        if desired.cpus is None
        else min(desired.cpus.fewest_millis + desired.cpus.beside_millis, demand.requests.of_resource(CPU)),
        restarts=max(0, status.attempt - 1),
        explored_workers=status.attempt_workers,
        avoided_workers=status.avoided_workers if elastic else frozenset(),
        requested_workers=None if elastic else _requested_workers(job, desired, state),
        rescaled_seconds=None if status.rescale is None else parse_time(status.rescale.since),
        rescale_seconds=_rescale_seconds(status, template),
        preemptible=preemptible(desired.spec) and not reconciled.coming_back,
        pausable=reconciled.pausable,
        suspended=desired.spec.suspend,
        unsaved_seconds=unsaved_seconds(status),
        starts_over=starts_over(status),
        ends=job.finished or job.deleting or desired.spec.suspend,
        leaves_late=_leaves_late(state, pods, now_seconds),
    )


def _leaves_late(state: JobState, pods: tuple[WorkerPod, ...], now_seconds: float) -> bool:
    """Whether a worker ends late, or would by its grace period."""
    moment = now_seconds if state is JobState.TERMINATING else -math.inf
    return any(late_seconds(pod) <= moment for pod in pods if not pod.ended)


def _demand(job: JobRecord, desired: DesiredSpec, state: JobState, *, elastic: bool) -> Demand:
    """Return what a job needs, or has while it holds GPUs. After a refusal by kube-scheduler no job is preempted for it until that is
    lifted. Without an elastic policy, no job is elastic for the scheduler."""
    demand, refusal = desired.demand, job.status.scheduler_refusal
    if desired.spec.elastic:
        workers = job.next_workers if state is JobState.WAITING else job.attempt_workers
        ranged = elastic and not job.keeps_workers
        fewest, most = (demand.min_workers, demand.max_workers) if ranged else (None, None)
        demand = replace(demand, workers=workers, min_workers=fewest, max_workers=most)
    return demand if refusal is None or refusal.lifted else replace(demand, preempts=False)


def _as_held(demand: Demand, reconciled: ReconciledJob, pods: tuple[WorkerPod, ...]) -> Demand:
    """Return a demand that requests no more than the job's pods do. The template may have been changed since they were made: a user who
    raises it must not keep other jobs off the node. A pod that has lent CPUs counts with up to twice what it has."""
    job, mine = reconciled.job, [pod for pod in pods if pod.attempt == reconciled.job.status.attempt]
    if not reconciled.holds or not mine or job.desired is None:
        return demand
    cpus = job.desired.cpus
    lends = cpus is not None and cpus.fewest_millis < cpus.request_millis
    held = {
        name: min(
            amount, max(pod.requests.get(name, 0) for pod in mine) * (2 if lends and name == CPU else 1)
        )
        for name, amount in demand.requests.amounts
    }
    requests = HostResources.of(held)
    return demand if requests == demand.requests else replace(demand, requests=requests)


def _requested_workers(job: JobRecord, desired: DesiredSpec, state: JobState) -> int | None:
    """Return the number of workers that a job is to have, if it has others or is being stopped because of that."""
    spec, rescale = desired.spec, job.status.rescale
    if not spec.elastic or spec.workers == job.attempt_workers or state is JobState.WAITING:
        return None
    if job.keeps_workers or spec.workers in job.status.avoided_workers:
        return None
    if job.finished or job.deleting or spec.suspend:
        return None  # while one restarts with more workers, no other is stopped: this one does not
    stopped = rescale is not None and rescale.attempt == job.status.attempt
    return spec.workers if state is not JobState.TERMINATING or stopped else None


def _rescale_seconds(status: TrainingJobStatus, template: KnownTemplate) -> float | None:
    """Return what a rescale costs: the job's own last one, else those of its template."""
    cost = None if status.rescale is None else status.rescale.cost_milliseconds
    return template.rescale_seconds if cost is None else cost / 1000


def _started_seconds(status: TrainingJobStatus, pods: tuple[WorkerPod, ...], now_seconds: float) -> float:
    """Return when the attempt first ran, or when the job last resumed; a wait for a lane does not move it.

    The Running condition moves with each such wait, so the containers' times count where they are known. They have whole seconds
    and the node's own clock: never before the placement, never after the condition.
    """
    running_seconds = transitions.since_seconds(status, ConditionType.RUNNING, now_seconds)
    workers = [pod.started_seconds for pod in pods if pod.attempt == status.attempt]
    began = [each for each in workers if each is not None]
    if len(began) < len(status.placement):
        return running_seconds
    began.append(transitions.since_seconds(status, ConditionType.PLACED, running_seconds))
    preempted = transitions.condition(status, ConditionType.PREEMPTED)
    if preempted is not None and preempted.reason == transitions.RESUMED:
        began.append(parse_time(preempted.last_transition_time))
    return min(running_seconds, max(began))


def _service_rate_gpus(status: TrainingJobStatus) -> float:
    """Return how many GPU-seconds a second the job attains: none while a worker of it is kept from its GPU."""
    return 0.0 if transitions.kept_reason(status) else accounting.held_gpus(status.placement)


def _expected_seconds(status: TrainingJobStatus, template: KnownTemplate, now_seconds: float) -> float | None:
    """Return the job's total run time. Executed plus remaining time is the same at any moment. Both are taken at a time that
    the status records, so that every call returns exactly the same number."""
    progress, counted_seconds = status.progress, accounting.counted_at_seconds(status)
    if counted_seconds is not None and progress is not None and progress.updated_at is not None:
        now_seconds = max(counted_seconds, parse_time(progress.updated_at))
        status = accounting.counted(status, now_seconds)
    return expected_seconds(status, now_seconds, template.expected_seconds)


def cpu_points(job: JobRecord, template: KnownTemplate) -> dict[int, int]:
    """Return how fast a job iterates by the CPUs of each trainer, as far as it or another of its template showed on GPUs of its model."""
    execution = job.status.execution
    models = () if execution is None or execution.attempt != job.status.attempt else execution.gpu_models
    of_template = template.cpu_points.get(models[0], {}) if len(models) == 1 else {}
    return merged(of_template, points_of(job.status.profile))


def _sensitivity(reconciled: ReconciledJob, template: KnownTemplate) -> Sensitivity | None:
    """Return how the throughput of a job that has its GPUs depends on CPUs; None: unknown."""
    job, profile = reconciled.job, reconciled.job.status.profile
    if not reconciled.holds or job.desired is None or job.desired.cpus is None:
        return None
    worker, beside = reconciled.holds[0], job.desired.cpus.beside_millis
    points = {cpus + beside: time for cpus, time in cpu_points(job, template).items()}
    gpu_microseconds = 0 if profile is None else profile.iteration_microseconds
    return sensitivity_of(points, gpu_microseconds, worker.share_percent * len(worker.gpus))


def _expected_on(status: TrainingJobStatus, template: KnownTemplate) -> str:
    """Return the GPU model of the expected run time: that of the job's own report where it gives the remaining time."""
    if status.progress is None or status.progress.remaining_seconds is None:
        return template.expected_on
    models = () if status.execution is None else status.execution.gpu_models
    return models[0] if len(models) == 1 else ""


def _counted_profile(
    reconciled: ReconciledJob, pods: tuple[WorkerPod, ...], template: KnownTemplate
) -> ProfileStatus | None:
    """Return what the node counts a job's workers with, or will: what was measured, and what was known when they were made."""
    job = reconciled.job
    mine = [pod for pod in pods if pod.attempt == job.status.attempt]
    if job.placed and mine:
        written = mine[0].profile
        known = None if written is None else from_node(written)
    else:
        known = template.profile
        if job.desired is not None and job.next_workers != job.attempt_workers:
            return known  # it was measured with another number of workers
    return larger(job.status.profile, known)
