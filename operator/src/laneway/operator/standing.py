"""Where a job stands in one cycle, and what it is judged by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from laneway.api.training_job import TrainingJobStatus
from laneway.operator.gang import Surroundings
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.priority_class import PriorityClassRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.scheduling import JobState, WorkerPlacement


@dataclass(frozen=True, slots=True)
class Happening:
    """Something worth an event."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a job stands in this cycle."""

    job: JobRecord
    """With the status that it is to have, as far as known."""

    state: JobState | None
    """As the planner is to see it; None: not at all."""

    holds: tuple[WorkerPlacement, ...] = ()
    """What the planner is to count as held by it."""

    accounted: frozenset[str] = frozenset()
    """Uids of the pods that ``holds`` stands for."""

    doomed: tuple[WorkerPod, ...] = ()
    """Pods to be deleted."""

    forsaken: tuple[WorkerPod, ...] = ()
    """Pods to be removed without waiting for their node, which does not answer."""

    yielding: tuple[WorkerPod, ...] = ()
    """The workers of a job that the plan has make way, as they were when that was decided."""

    awaits: frozenset[str] = frozenset()
    """Keys of the jobs that the plan has make way for it."""

    present: frozenset[int] = frozenset()
    """Ranks of the current attempt that have a pod."""

    happenings: tuple[Happening, ...] = ()
    priority: int = 0
    parkable: bool = False
    """Whether its workers have clients that can stop between two iterations."""

    coming_back: bool = False
    """It stood aside, goes on, and its nodes have not said so yet: until then it makes way for nobody."""

    due_seconds: float | None = None
    """When it has to be looked at again though nothing changes."""

    expired: bool = False
    """It ended long enough ago to be deleted."""

    def becomes(self, status: TrainingJobStatus, *happenings: Happening) -> Standing:
        """Return this standing with another status, and what happened."""
        if status is self.job.status and not happenings:
            return self
        return replace(self, job=self.job.with_status(status), happenings=(*self.happenings, *happenings))


@dataclass(frozen=True, slots=True)
class Facts:
    """What all jobs are judged by."""

    around: Surroundings
    priority_classes: Mapping[str, PriorityClassRecord]
    refusals: Mapping[tuple[str, int], str]
    """By job uid and attempt: what the API server said when it refused one of the attempt's objects."""

    template_refusals: Mapping[tuple[str, int], str] = field(default_factory=lambda: MappingProxyType({}))
    """By job uid and generation: what the API server said of a pod template when it was asked whether it would take it."""

    @property
    def now_seconds(self) -> float:
        """The time of the cycle."""
        return self.around.now_seconds
