"""Counters and histograms of jobs by namespace. They are counted as things happen, so they keep what a job did when it is
gone, for an hour after the last one of its namespace is."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import product
from typing import Final

from laneway.api.attempt_status import AttemptOutcome
from laneway.api.metric import MetricSpec
from laneway.scheduling import PreemptionAction, PreemptionReason
from prometheus_client import CollectorRegistry, Counter, Histogram

PREEMPTION_REASONS: Final = (
    PreemptionReason.HIGHER_PRIORITY,
    PreemptionReason.HIGHER_QUEUE,
    PreemptionReason.SEPARATED,
    PreemptionReason.REASSIGNED,
)
ACTIONS: Final = tuple(action.value for action in PreemptionAction)
RESULTS: Final = ("succeeded", "failed")
LOSSES: Final = tuple(sorted(each.value for each in AttemptOutcome if each is not AttemptOutcome.SUCCEEDED))

HELD_GPU_SECONDS = MetricSpec(
    "laneway_held_gpu_seconds_total",
    "counter",
    "GPU time that running jobs held; a share of 30 % counts as 0.3 of a GPU, and all jobs on a GPU as one at most.",
    ("namespace",),
)
LOST_GPU_SECONDS = MetricSpec(
    "laneway_lost_gpu_seconds_total",
    "counter",
    "GPU time of work that no checkpoint held when an attempt ended before its job, by the outcome in status.endedAttempts. A checkpoint saved in the grace period is not seen.",
    ("namespace", "reason"),
    {"reason": LOSSES},
)
WAIT_DURATION = MetricSpec(
    "laneway_job_wait_duration_seconds", "histogram", "Time from waiting to running.", ("namespace",)
)
COMPLETION_DURATION = MetricSpec(
    "laneway_job_completion_duration_seconds",
    "histogram",
    "Time from a job's creation to its end (JCT), by result.",
    ("namespace", "result"),
    {"result": RESULTS},
)
SLOWDOWN = MetricSpec(
    "laneway_job_slowdown_ratio",
    "histogram",
    "Time from a succeeded job's creation to its end, divided by the time that it ran.",
    ("namespace",),
)
PREEMPTIONS = MetricSpec(
    "laneway_preemptions_total",
    "counter",
    "Preemptions of jobs, by how far (Pause, Offload or Evict, as first decided) and why.",
    ("namespace", "action", "reason"),
    {"action": ACTIONS, "reason": tuple(str(reason) for reason in PREEMPTION_REASONS)},
)
RESTARTS = MetricSpec(
    "laneway_restarts_total", "counter", "Restarts of jobs after a worker failed.", ("namespace",)
)
RESCALES = MetricSpec(
    "laneway_rescales_total", "counter", "Restarts of jobs with another number of workers.", ("namespace",)
)
GANG_ROLLBACKS = MetricSpec(
    "laneway_gang_rollbacks_total", "counter", "Attempts of gangs that were rolled back.", ("namespace",)
)

NAMESPACE_METRICS = (
    HELD_GPU_SECONDS,
    LOST_GPU_SECONDS,
    WAIT_DURATION,
    COMPLETION_DURATION,
    SLOWDOWN,
    PREEMPTIONS,
    RESTARTS,
    RESCALES,
    GANG_ROLLBACKS,
)
"""The metrics of this module."""

KEPT_SECONDS = 3600.0
"""The series of a namespace stay for this long after its last job is gone."""

_WAIT_SECONDS = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
_COMPLETION_SECONDS = (60, 300, 600, 1800, 3600, 7200, 21_600, 43_200, 86_400, 259_200, 604_800, 2_592_000)
_SLOWDOWN_RATIOS = (1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10, 20, 50, 100)


class NamespaceMetrics:
    """The counters and histograms of one replica."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register them without any series."""
        self.held_gpu_seconds = _counter(HELD_GPU_SECONDS, registry)
        self.lost_gpu_seconds = _counter(LOST_GPU_SECONDS, registry)
        self.wait_duration = _histogram(WAIT_DURATION, _WAIT_SECONDS, registry)
        self.completion_duration = _histogram(COMPLETION_DURATION, _COMPLETION_SECONDS, registry)
        self.slowdown = _histogram(SLOWDOWN, _SLOWDOWN_RATIOS, registry)
        self.preemptions = _counter(PREEMPTIONS, registry)
        self.restarts = _counter(RESTARTS, registry)
        self.rescales = _counter(RESCALES, registry)
        self.gang_rollbacks = _counter(GANG_ROLLBACKS, registry)
        self._unused_since_seconds: dict[str, float] = {}
        """By namespace with series; infinite while it has a job."""

    def begin(self, namespace: str) -> None:
        """Let the series of a namespace begin at 0: else its first increase cannot be seen."""
        if namespace not in self._unused_since_seconds:
            self._unused_since_seconds[namespace] = math.inf
            for metric, labels in self._series(namespace):
                metric.labels(*labels)

    def end_unused(self, used: Collection[str], now_seconds: float) -> None:
        """Remove the series of namespaces that have had no job for an hour: Prometheus has read the last values by then."""
        for namespace, known_seconds in list(self._unused_since_seconds.items()):
            since_seconds = math.inf if namespace in used else min(known_seconds, now_seconds)
            self._unused_since_seconds[namespace] = since_seconds
            if now_seconds >= since_seconds + KEPT_SECONDS:
                del self._unused_since_seconds[namespace]
                for metric, labels in self._series(namespace):
                    metric.remove(*labels)

    def _series(self, namespace: str) -> Iterator[tuple[Counter | Histogram, tuple[str, ...]]]:
        for each in (self.held_gpu_seconds, self.restarts, self.rescales, self.gang_rollbacks):
            yield each, (namespace,)
        for histogram in (self.wait_duration, self.slowdown):
            yield histogram, (namespace,)
        for result in RESULTS:
            yield self.completion_duration, (namespace, result)
        for reason in LOSSES:
            yield self.lost_gpu_seconds, (namespace, reason)
        for action, cause in product(ACTIONS, PREEMPTION_REASONS):
            yield self.preemptions, (namespace, action, cause)


def _counter(spec: MetricSpec, registry: CollectorRegistry) -> Counter:
    return Counter(spec.name, spec.help, spec.labels, registry=registry)


def _histogram(spec: MetricSpec, buckets: Sequence[float], registry: CollectorRegistry) -> Histogram:
    return Histogram(spec.name, spec.help, spec.labels, buckets=buckets, registry=registry)
