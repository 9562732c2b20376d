"""What is to be written about one job: the difference between what it has and what it is to have."""

from __future__ import annotations

from dataclasses import dataclass

from laneway.api.clock_text import to_seconds
from laneway.api.training_job import ConditionType, ProfileStatus, TrainingJobStatus, WorkerPlacementStatus
from laneway.operator import transitions
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.standing import Happening, Standing
from laneway.operator.templates import KnownTemplate
from laneway.scheduling import JobState


@dataclass(frozen=True, slots=True)
class JobStatement:
    """What is to be written about one job."""

    job: JobRecord
    """As the cluster has it."""

    status: TrainingJobStatus
    """As it is to be."""

    write: bool
    """Whether the status is to be written now."""

    creates: tuple[WorkerPlacementStatus, ...] = ()
    """Workers whose pods are to be made."""

    profile: ProfileStatus | None = None
    """What is known of their template; None: nothing."""

    doomed: tuple[WorkerPod, ...] = ()
    """Pods to be deleted."""

    forsaken: tuple[WorkerPod, ...] = ()
    """Pods to be removed without waiting for their node, which does not answer."""

    yielding: tuple[WorkerPod, ...] = ()
    """Workers that make way for others: nothing is written unless they are still what they were when that was decided."""

    awaits: frozenset[str] = frozenset()
    """Keys of jobs that make way for it: it is told so when they have been told."""

    happenings: tuple[Happening, ...] = ()
    expired: bool = False
    """The job is to be deleted."""

    waited_seconds: float | None = None
    """How long it had waited, where it is seen to run for the first time since."""

    @property
    def frees(self) -> frozenset[str]:
        """GPUs that the job has by the status that is there, and does not have, or takes no turns on, by the one that is to be."""
        had = _active_gpus(self.job.status)
        return had - _active_gpus(self.status) if had else had

    @property
    def takes(self) -> frozenset[str]:
        """GPUs of a job that is to start, or to go on, on them: who frees them is to be written about first."""
        before, after = self.job.status, self.status
        goes_on = before.preemption is not None and bool(before.placement) and after.preemption is None
        if after.attempt == before.attempt and not goes_on:
            return frozenset()
        return _active_gpus(after)

    @property
    def gives(self) -> frozenset[str]:
        """What others wait for until its status has been written: GPUs, and the key of a job that makes way."""
        return self.frees | {self.job.key} if self.yielding else self.frees

    @property
    def needs(self) -> frozenset[str]:
        """What is to have been given before its status is written."""
        return self.takes | self.awaits

    @property
    def acts(self) -> bool:
        """Whether more is to be done than to write a status in which only figures and sentences are new."""
        return bool(
            self.creates
            or self.doomed
            or self.forsaken
            or self.expired
            or self.happenings
            or gist(self.status) != gist(self.job.status)
        )

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.write or self.creates or self.doomed or self.forsaken or self.expired)


def draft(job: JobRecord, standing: Standing, template: KnownTemplate) -> JobStatement:
    """Return what is to be written for a job to stand as it is to; a status of which only figures are new is not written yet."""
    status = standing.job.status
    goes_on = standing.state is JobState.STARTING and standing.job.placed and not standing.job.finished
    missing = (
        [worker for worker in status.placement if worker.worker not in standing.present] if goes_on else []
    )
    waited_seconds = None
    if standing.job.running and not job.running and job.status.waiting and job.status.waiting.since:
        running = transitions.since_seconds(status, ConditionType.RUNNING, 0.0)
        waited_seconds = max(0.0, running - to_seconds(job.status.waiting.since))
    return JobStatement(
        job=job,
        status=status,
        write=(gist(status) != gist(job.status) or bool(standing.happenings)) and not job.deleting,
        creates=tuple(missing),
        profile=template.profile if missing else None,
        doomed=standing.doomed,
        forsaken=standing.forsaken,
        yielding=standing.yielding,
        awaits=standing.awaits,
        happenings=standing.happenings,
        expired=standing.expired,
        waited_seconds=waited_seconds,
    )


def _active_gpus(status: TrainingJobStatus) -> frozenset[str]:
    if status.completion_time is not None:
        return frozenset()  # the placement of who has ended says where its logs are
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
        status.service_at_promotion,
        status.profile is None,
        status.preemptions,
        status.preemption,
        status.restarts,
        status.waiting.reason if status.waiting else "",
        status.avoid,
        status.completion_time,
    )
