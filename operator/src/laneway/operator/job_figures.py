"""Where the jobs stand, as figures for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from laneway.api import quantity
from laneway.api.clock_text import to_seconds
from laneway.api.conditions import is_true
from laneway.api.training_job import ConditionType
from laneway.operator import accounting, parking
from laneway.operator.metrics import Figures, GPUShare, JobFigures
from laneway.operator.standing import Standing
from laneway.scheduling import JobState


def figures_of(standings: Iterable[Standing], now_seconds: float) -> Figures:
    """Return the figures of all jobs."""
    standings = tuple(standings)
    unfinished = [standing for standing in standings if not standing.job.finished]
    return Figures(
        jobs=tuple(_job_figures(standing, now_seconds) for standing in unfinished),
        by_state=Counter(_state_name(standing) for standing in standings),
        by_queue=Counter(standing.job.status.queue for standing in unfinished),
    )


def _state_name(standing: Standing) -> str:
    job = standing.job
    if job.finished:
        return "succeeded" if is_true(job.status.conditions, ConditionType.SUCCEEDED) else "failed"
    if standing.state is JobState.LEAVING:
        return "preempting"
    if job.placed and not job.running and parking.parking_depth(job.status) is not None:
        return "parked"
    if job.placed:
        return "running" if job.running else "starting"
    return "suspended" if job.wish is not None and job.wish.spec.suspend else "waiting"


def _job_figures(standing: Standing, now_seconds: float) -> JobFigures:
    job = standing.job
    waiting = job.status.waiting
    waits = waiting is not None and waiting.since is not None and not job.running
    return JobFigures(
        namespace=job.namespace,
        job=job.name,
        attained_gpu_seconds=float(
            quantity.parse(accounting.counted(job.status, now_seconds).attained_service)
        ),
        waiting_seconds=max(0.0, now_seconds - to_seconds(waiting.since))
        if waits and waiting and waiting.since
        else None,
        shares=tuple(
            GPUShare(worker.node, gpu, worker.share_percent)
            for worker in standing.holds
            for gpu in worker.gpus
        ),
        progress=job.status.progress,
        profile=job.status.profile,
    )
