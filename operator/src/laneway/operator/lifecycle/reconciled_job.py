"""A job as it was reconciled, and the context in which jobs are reconciled."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from laneway.api.training_job_status import TrainingJobStatus
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import JobState, WorkerPlacement
from laneway.scheduling.config.operator_config import TimeoutsConfig


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Something worth an event."""

    reason: str
    message: str
    warning: bool = False
    others: tuple[str, ...] = ()
    """Keys of the other jobs that it is about, of all namespaces; for the log."""


def suspension_event(message: str, pods: Iterable[WorkerPod]) -> JobEvent:
    """Return the event of a job that is suspended: the message, and what its pods that run do now."""
    run = any(not pod.ended for pod in pods)
    consequence = " Its workers have their grace period to save a checkpoint, and end." if run else ""
    return JobEvent("Suspended", message + consequence)


@dataclass(frozen=True, slots=True)
class ReconciledJob:
    """A job after what has happened to it."""

    job: JobRecord
    """With the status that it is to have, as far as known."""

    state: JobState | None
    """For the scheduler; None: the scheduler does not get the job."""

    holds: tuple[WorkerPlacement, ...] = ()
    """What the scheduler counts as held by it."""

    pods_to_delete: tuple[WorkerPod, ...] = ()
    """Pods to be deleted."""

    pods_to_force_delete: tuple[WorkerPod, ...] = ()
    """Pods to be deleted with grace period 0, because their node does not answer."""

    victims: tuple[WorkerPod, ...] = ()
    """The workers of a preempted job, as they were when that was decided."""

    awaits: frozenset[str] = frozenset()
    """Keys of the jobs that are preempted for it."""

    waits_for: tuple[str, ...] = ()
    """Keys of the jobs that its reason to wait is about, of all namespaces; for the log."""

    events: tuple[JobEvent, ...] = ()
    priority: int = 0
    pausable: bool = False
    """Whether its workers have clients that can stop between two iterations."""

    coming_back: bool = False
    """It was paused and resumes, and its nodes have not reported that yet: until then it cannot be preempted."""

    due_seconds: float = math.inf
    """When it has to be reconciled again though nothing changes."""

    expired: bool = False
    """It ended long enough ago to be deleted."""

    def covers(self, pod: WorkerPod, gpu: str) -> bool:
        """Whether what the scheduler counts as held by the job includes the part that one of its pods has of a GPU."""
        return self.state is not None and any(
            each.worker == pod.rank and gpu in each.gpus for each in self.holds
        )

    def accounts_for(self, pod: WorkerPod) -> bool:
        """Whether what the scheduler counts as held by the job includes one of its pods, on whichever GPU."""
        return self.state is not None and any(each.worker == pod.rank for each in self.holds)

    def becomes(self, status: TrainingJobStatus, *events: JobEvent) -> ReconciledJob:
        """Return this job with another status, and with further events."""
        if status is self.job.status and not events:
            return self
        return replace(self, job=self.job.with_status(status), events=(*self.events, *events))


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """What all jobs are reconciled by."""

    state: ClusterState
    timeouts: TimeoutsConfig
    now_seconds: float
    refusals: Mapping[tuple[str, int], str]
    """By job uid and attempt: what the API server said when it refused one of the attempt's objects."""

    template_refusals: Mapping[tuple[str, int], str] = field(default_factory=lambda: MappingProxyType({}))
    """By job uid and generation: what the API server said of a pod template when it was asked whether it would take it."""

    watched_since_seconds: float = math.inf
    """Since when this replica has watched the cluster without a break; infinite: it has only begun."""
