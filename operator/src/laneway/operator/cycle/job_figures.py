"""Where the jobs stand, as figures for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from laneway.api.job_conditions import SummaryState
from laneway.api.rfc3339 import parse_time
from laneway.operator.lifecycle import accounting
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.metrics import Figures, GPUShare, JobFigures
from laneway.scheduling import JobState

_STATE_NAMES = {
    SummaryState.INVALID: "waiting",
    SummaryState.PENDING: "waiting",
    SummaryState.SUSPENDED: "suspended",
    SummaryState.STARTING: "starting",
    SummaryState.RUNNING: "running",
    SummaryState.WAITING: "waiting",
    SummaryState.PAUSED: "paused",
    SummaryState.COMPLETE: "succeeded",
    SummaryState.FAILED: "failed",
}


def figures_of(reconciled_jobs: Iterable[ReconciledJob], now_seconds: float) -> Figures:
    """Return the figures of the jobs that this operator manages."""
    reconciled_jobs = tuple(each for each in reconciled_jobs if each.job.managed)
    unfinished = [reconciled for reconciled in reconciled_jobs if not reconciled.job.finished]
    return Figures(
        jobs=tuple(_job_figures(reconciled, now_seconds) for reconciled in unfinished),
        by_state=Counter(_state_name(reconciled) for reconciled in reconciled_jobs),
        by_queue=Counter(reconciled.job.status.queue for reconciled in unfinished),
    )


def _state_name(reconciled: ReconciledJob) -> str:
    if reconciled.state is JobState.TERMINATING and not reconciled.job.finished:
        return "preempting"
    return _STATE_NAMES[reconciled.job.status.state]


def _job_figures(reconciled: ReconciledJob, now_seconds: float) -> JobFigures:
    job = reconciled.job
    waiting = None if job.running else job.status.waiting
    since = None if waiting is None else waiting.since
    return JobFigures(
        namespace=job.namespace,
        job=job.name,
        attained_gpu_seconds=accounting.attained_gpu_seconds(accounting.counted(job.status, now_seconds)),
        waiting_seconds=None if since is None else max(0.0, now_seconds - parse_time(since)),
        shares=tuple(
            GPUShare(worker.node, gpu, worker.share_percent)
            for worker in reconciled.holds
            for gpu in worker.gpus
        ),
        progress=job.status.progress,
        profile=job.status.profile,
    )
