"""What the operator makes of a view: reconciled jobs, cycles and writes."""

from __future__ import annotations

from typing import Any

from laneway.api.training_job_status import (
    TrainingJobStatus,
    WorkerPlacementStatus,
)
from laneway.operator.cycle.cycle import Cycle, CycleResult
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.lifecycle.reconcile import reconcile
from laneway.operator.lifecycle.reconciled_job import ReconcileContext, ReconciledJob
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling.config.operator_config import OperatorConfig, TimeoutsConfig

from tests.unit.operator.builders.moment import NOW, TIMEOUTS
from tests.unit.operator.builders.nodes import a_gpu_node
from tests.unit.operator.builders.views import a_view


def context_of(
    view: ClusterState,
    refusals: dict[tuple[str, int], str] | None = None,
    now: float = NOW,
    timeouts: TimeoutsConfig = TIMEOUTS,
) -> ReconcileContext:
    """What the jobs of a view are judged by."""
    return ReconcileContext(view, timeouts, now, refusals or {})


def reconciled_job_of(
    job: JobRecord, *pods: WorkerPod, view: ClusterState | None = None, **options: Any
) -> ReconciledJob:
    """The state of one job on two nodes."""
    view = view or a_view(gpu_nodes=[a_gpu_node("n1"), a_gpu_node("n2")])
    return reconcile(job, pods, context_of(view, **options))


def reasons(reconciled: ReconciledJob) -> list[str]:
    """The reasons of a reconciled job's events, in order."""
    return [event.reason for event in reconciled.events]


def decided(
    view: ClusterState,
    now: float = NOW,
    written: dict[str, float] | None = None,
    config: OperatorConfig | None = None,
) -> CycleResult:
    """What a cycle would do that sees the cluster for the first time."""
    config = config or OperatorConfig()
    return Cycle(config).run(view, WriteHistory({}, written or {}), now)


def a_write(
    before: JobRecord,
    after: TrainingJobStatus,
    *,
    writes_status: bool = True,
    creates: tuple[WorkerPlacementStatus, ...] = (),
) -> JobWrite:
    """The writes that give a job another status, and make pods."""
    return JobWrite(before, ReconciledJob(before.with_status(after), None), writes_status, creates)


def write_of(result: CycleResult, job: str) -> JobWrite | None:
    """The writes about a job of namespace ``ns``; None if there are none."""
    return next((each for each in result.writes if each.job.key == f"ns/{job}"), None)


def condition_of(status: TrainingJobStatus, kind: str) -> tuple[str, str]:
    """A condition as (status, reason)."""
    found = next(each for each in status.conditions if each.type == kind)
    return found.status, found.reason
