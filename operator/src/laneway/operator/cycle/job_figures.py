"""Where the jobs stand, as figures for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from laneway.api.conditions import is_true
from laneway.api.job_conditions import ConditionType
from laneway.api.rfc3339 import parse_time
from laneway.operator.lifecycle import accounting, pausing
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.metrics import Figures, GPUShare, JobFigures
from laneway.scheduling import JobState


def figures_of(reconciled_jobs: Iterable[ReconciledJob], now_seconds: float) -> Figures:
    """Return the figures of all jobs."""
    reconciled_jobs = tuple(reconciled_jobs)
    unfinished = [reconciled for reconciled in reconciled_jobs if not reconciled.job.finished]
    return Figures(
        jobs=tuple(_job_figures(reconciled, now_seconds) for reconciled in unfinished),
        by_state=Counter(_state_name(reconciled) for reconciled in reconciled_jobs),
        by_queue=Counter(reconciled.job.status.queue for reconciled in unfinished),
    )


def _state_name(reconciled: ReconciledJob) -> str:
    job = reconciled.job
    if job.finished:
        return "succeeded" if is_true(job.status.conditions, ConditionType.COMPLETE) else "failed"
    if reconciled.state is JobState.TERMINATING:
        return "preempting"
    if job.placed and not job.running and pausing.pause_action(job.status) is not None:
        return "paused"
    if job.placed:
        return "running" if job.running else "starting"
    return "suspended" if job.desired is not None and job.desired.spec.suspend else "waiting"


def _job_figures(reconciled: ReconciledJob, now_seconds: float) -> JobFigures:
    job = reconciled.job
    waiting = job.status.waiting
    waits = waiting is not None and waiting.since is not None and not job.running
    return JobFigures(
        namespace=job.namespace,
        job=job.name,
        attained_gpu_seconds=accounting.attained_gpu_seconds(accounting.counted(job.status, now_seconds)),
        waiting_seconds=max(0.0, now_seconds - parse_time(waiting.since))
        if waits and waiting and waiting.since
        else None,
        shares=tuple(
            GPUShare(worker.node, gpu, worker.share_percent)
            for worker in reconciled.holds
            for gpu in worker.gpus
        ),
        progress=job.status.progress,
        profile=job.status.profile,
    )
