"""A job's writes: the difference between what it has and what it is to have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import parse_time
from laneway.api.training_job_status import ProfileStatus, TrainingJobStatus, WorkerPlacementStatus
from laneway.operator.cycle.templates import KnownTemplate
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import JobState


@dataclass(frozen=True, slots=True)
class JobWrite:
    """All writes of one job."""

    job: JobRecord
    """As the cluster has it."""

    after: ReconciledJob
    """As it is to be."""

    writes_status: bool
    """Whether the status is to be written now."""

    creates: tuple[WorkerPlacementStatus, ...] = ()
    """Workers whose pods are to be made."""

    binds: bool = False
    """Whether the operator binds these pods itself, and not kube-scheduler."""

    profile: ProfileStatus | None = None
    """What is known of their template; None: nothing."""

    @property
    def status(self) -> TrainingJobStatus:
        """The status as it is to be."""
        return self.after.job.status

    @property
    def frees(self) -> frozenset[str]:
        """GPUs that the job has by its present status, and does not have, or takes no turns on, by the next."""
        had = _active_gpus(self.job.status)
        return had - _active_gpus(self.status) if had else had

    @property
    def takes(self) -> frozenset[str]:
        """GPUs on which a job starts or resumes: the status that frees them is written first."""
        before, after = self.job.status, self.status
        goes_on = before.preemption is not None and bool(before.placement) and after.preemption is None
        if after.attempt == before.attempt and not goes_on:
            return frozenset()
        return _active_gpus(after)

    @property
    def releases(self) -> frozenset[str]:
        """What other jobs' statuses wait for: GPUs, and the key of a preempted job."""
        return self.frees | {self.job.key} if self.after.victims else self.frees

    @property
    def depends_on(self) -> frozenset[str]:
        """What must be released before its status is written."""
        return self.takes | self.after.awaits

    @property
    def acts(self) -> bool:
        """Whether more is to be done than to write a status in which only figures and sentences are new."""
        return self.changes_objects or is_step(self.job.status, self.after)

    @property
    def changes_objects(self) -> bool:
        """Whether pods are to be made or deleted, or the job is."""
        after = self.after
        return bool(self.creates or after.pods_to_delete or after.pods_to_force_delete or after.expired)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.writes_status or self.changes_objects)

    @property
    def waited_seconds(self) -> float | None:
        """How long it had waited, where it is seen to run for the first time since; a wait for a lane, or a pause by order, amid an attempt is none."""
        before, after = self.job.status, self.status
        runs = self.after.job.running and not self.job.running
        if not runs or before.waiting is None or before.waiting.since is None:
            return None
        since_seconds = parse_time(before.waiting.since)
        placed_seconds = transitions.since_seconds(after, ConditionType.PLACED, since_seconds)
        if transitions.kept_reason(before) and since_seconds > placed_seconds:
            return None
        return max(0.0, transitions.since_seconds(after, ConditionType.RUNNING, 0.0) - since_seconds)


def job_write(
    job: JobRecord, after: ReconciledJob, pods: Iterable[WorkerPod], template: KnownTemplate
) -> JobWrite:
    """Return the writes that a job demands; a status with only new figures is not written yet."""
    present = {pod.rank for pod in pods if pod.attempt == after.job.status.attempt}
    starts = after.state is JobState.STARTING
    missing = tuple(each for each in after.job.status.placement if starts and each.worker not in present)
    return JobWrite(
        job=job,
        after=after,
        writes_status=is_step(job.status, after) and not job.deleting,
        creates=missing,
        profile=template.profile if missing else None,
    )


def is_step(before: TrainingJobStatus, after: ReconciledJob) -> bool:
    """Whether something happened to a job, and its status has not merely new figures and sentences."""
    return bool(after.events) or gist(after.job.status) != gist(before)


def _active_gpus(status: TrainingJobStatus) -> frozenset[str]:
    if status.completion_time is not None:
        return frozenset()  # an ended job's placement only says where its logs are
    if status.preemption is not None and status.preemption.reached_at is not None:
        return frozenset()
    return frozenset(gpu for worker in status.placement for gpu in worker.gpus)


def gist(status: TrainingJobStatus) -> tuple[object, ...]:
    """Return what of a status is a step in the job's life, and not merely a figure or a sentence that keeps changing."""
    return (
        tuple((each.type, each.status, each.reason) for each in status.conditions),
        status.observed_generation,
        status.attempt,
        status.placement,
        status.queue,
        status.service_at_promotion_gpu_milliseconds,
        status.profile is None,
        status.preemptions,
        status.preemption,
        status.restarts,
        status.waiting.reason if status.waiting else "",
        status.avoid,
        status.scheduler_refusal is None or status.scheduler_refusal.lifted,
        status.completion_time,
    )
