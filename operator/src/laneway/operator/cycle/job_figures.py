"""Where the jobs stand, as gauges for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

from laneway.api.job_conditions import SummaryState
from laneway.api.rfc3339 import parse_time
from laneway.operator import metrics
from laneway.operator.cycle.gpu_figures import gpu_gauges
from laneway.operator.cycle.held_parts import HeldParts
from laneway.operator.cycle.node_figures import node_gauges
from laneway.operator.lifecycle import accounting
from laneway.operator.lifecycle.reconciled_job import ReconciledJob
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.training_metrics import training_metrics
from laneway.scheduling import JobState
from prometheus_client.core import GaugeMetricFamily

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


def job_gauges(
    unfinished: Collection[ReconciledJob],
    ended: Mapping[tuple[str, str], int],
    parts: HeldParts,
    now_seconds: float,
) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of the jobs that this operator manages. A suspended job is counted, and has no series of its own.

    Args:
        unfinished: the jobs that have not ended.
        ended: by namespace and state (`succeeded` or `failed`), how many have.
        parts: what running jobs hold.
        now_seconds: Unix time.
    """
    states = metrics.gauge(metrics.JOBS)
    by_state = Counter((each.job.namespace, _state_name(each)) for each in unfinished)
    by_state.update(ended)
    for namespace in sorted({namespace for namespace, _ in by_state}):
        for state in metrics.JOB_STATES:
            states.add_metric([namespace, state], by_state[namespace, state])
    queues = metrics.gauge(metrics.QUEUE_JOBS)
    for queue, number in sorted(Counter(each.job.status.queue for each in unfinished).items()):
        queues.add_metric([str(queue)], number)
    service = metrics.gauge(metrics.JOB_ATTAINED_SERVICE)
    waiting = metrics.gauge(metrics.JOB_WAITING)
    shares = metrics.gauge(metrics.JOB_GPU_SHARE)
    held_parts = metrics.gauge(metrics.JOB_HELD_GPUS)
    held_seconds = metrics.gauge(metrics.JOB_HELD_GPU_SECONDS)
    shown = [each for each in unfinished if not _is_at_rest(each)]
    for each in shown:
        job, status = each.job, accounting.counted(each.job.status, now_seconds)
        labels = [job.namespace, job.name]
        service.add_metric(labels, accounting.attained_gpu_seconds(status))
        counted = parts.counted(job.uid, job.status, status, now_seconds)
        held_seconds.add_metric(labels, counted.held_gpu_milliseconds / 1000)
        waits = not job.running and status.state != SummaryState.SUSPENDED
        if waits and status.waiting is not None and status.waiting.since is not None:
            waiting.add_metric(labels, max(0.0, now_seconds - parse_time(status.waiting.since)))
        held: Counter[tuple[str, str]] = Counter()
        for worker in each.holds:
            for gpu in worker.gpus:
                held[worker.node, gpu] += worker.share_percent
        for place, share_percent in held.items():
            shares.add_metric([*labels, *place], min(share_percent, 100) / 100)
        for place, part in parts.of(job.uid):
            held_parts.add_metric([*labels, *place], part)
    yield from (states, queues, service, held_seconds, waiting, shares, held_parts)
    known = (
        (job.namespace, job.name, job.status.progress, job.status.profile, job.status.goodput)
        for job in (each.job for each in shown)
    )
    yield from training_metrics(known)


def no_gauges() -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of a replica that does not lead, without a series."""
    yield from job_gauges((), {}, HeldParts(), 0.0)
    yield from gpu_gauges((), ())
    yield from node_gauges(ClusterState())


def _is_at_rest(reconciled: ReconciledJob) -> bool:
    """Whether a job is suspended and its workers have ended: then its figures do not change, and thousands of jobs may be so for months."""
    return _state_name(reconciled) == "suspended" and not reconciled.holds


def _state_name(reconciled: ReconciledJob) -> str:
    if reconciled.state is JobState.TERMINATING:
        return "preempting"
    return _STATE_NAMES[reconciled.job.status.state]
