"""The operator's Prometheus metrics (docs/metrics.md lists them).

Counters and histograms are counted as things happen. Gauges about jobs and nodes are computed from the last cycle's
state at each scrape, so the series of a job vanish with the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version

from laneway.api.metric import BUILD_INFO, MetricSpec
from laneway.operator.namespace_metrics import NAMESPACE_METRICS, NamespaceMetrics
from laneway.operator.training_metrics import TRAINING_METRICS
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

JOB_STATES = ("waiting", "starting", "running", "preempting", "paused", "succeeded", "failed", "suspended")

JOBS = MetricSpec(
    "laneway_jobs",
    "gauge",
    "Jobs by state; waiting: for GPUs, a valid spec or a lane; paused: paused or offloaded.",
    ("namespace", "state"),
    {"state": JOB_STATES},
)
QUEUE_JOBS = MetricSpec(
    "laneway_queue_jobs", "gauge", "Unfinished jobs by queue of the order policy.", ("queue",)
)
JOB_ATTAINED_SERVICE = MetricSpec(
    "laneway_job_attained_service_gpu_seconds",
    "gauge",
    "GPU-seconds of attained service of a job.",
    ("namespace", "training_job"),
)
JOB_HELD_GPU_SECONDS = MetricSpec(
    "laneway_job_held_gpu_seconds",
    "gauge",
    "GPU time that a job has held while it ran.",
    ("namespace", "training_job"),
)
JOB_WAITING = MetricSpec(
    "laneway_job_waiting_seconds",
    "gauge",
    "Time for which a waiting job has waited.",
    ("namespace", "training_job"),
)
JOB_GPU_SHARE = MetricSpec(
    "laneway_job_gpu_share_ratio",
    "gauge",
    "Share of a GPU that a job has, also while it starts or is paused. Shares of jobs that take turns add up to more than 1.",
    ("namespace", "training_job", "node", "gpu_uuid"),
)
JOB_HELD_GPUS = MetricSpec(
    "laneway_job_held_gpus",
    "gauge",
    "Part of a GPU that a running job holds: its share, divided by the sum of its GPU's shares where that is more than 1.",
    ("namespace", "training_job", "node", "gpu_uuid"),
)
USABLE_GPUS = MetricSpec(
    "laneway_usable_gpus", "gauge", "Healthy GPUs on nodes where jobs may start, by model.", ("model",)
)
IDLE_GPUS = MetricSpec(
    "laneway_idle_gpus",
    "gauge",
    "The parts of usable GPUs that are not allocated, or to paused jobs only, in GPUs.",
    ("model",),
)
FRAGMENTED_GPUS = MetricSpec(
    "laneway_fragmented_gpus",
    "gauge",
    "The part of laneway_idle_gpus on GPUs that are partly allocated, where no job that requests whole GPUs fits.",
    ("model",),
)
CYCLE_DURATION = MetricSpec(
    "laneway_cycle_duration_seconds",
    "histogram",
    "Duration of a cycle, from reading the cache to the list of writes.",
)
JOB_WRITE_DURATION = MetricSpec(
    "laneway_job_write_duration_seconds",
    "histogram",
    "Duration of a job's writes, from the decision to the last answer.",
)
POLICY_FAILURES = MetricSpec(
    "laneway_policy_failures_total",
    "counter",
    "Failures of policies; each costs the decision of its stage only.",
    ("stage",),
    {"stage": ("allocation", "elastic", "order")},
)
API_WRITES = MetricSpec(
    "laneway_api_writes_total", "counter", "Writes to the API server.", ("verb", "resource", "result")
)
API_REQUESTS = MetricSpec(
    "laneway_api_requests_total",
    "counter",
    "Requests to the API server, without those of kopf's watches, by status code; <error>: no answer. WATCH: watches opened.",
    ("method", "code"),
)
NODE_AGENT_SILENT = MetricSpec(
    "laneway_node_agent_silent",
    "gauge",
    "1 while the agent of a node has not renewed its Lease for silentNodeSeconds, as the leader sees it.",
    ("node",),
)
NODE_SHARES_MISSING = MetricSpec(
    "laneway_node_shares_missing",
    "gauge",
    "1 while the kubelet of a node offers no shares though a GPU is healthy, as the leader sees it.",
    ("node",),
)
LEADER = MetricSpec("laneway_leader", "gauge", "1 while this replica is the leader.")

METRICS = (
    BUILD_INFO,
    JOBS,
    QUEUE_JOBS,
    JOB_ATTAINED_SERVICE,
    JOB_HELD_GPU_SECONDS,
    JOB_WAITING,
    JOB_GPU_SHARE,
    JOB_HELD_GPUS,
    USABLE_GPUS,
    IDLE_GPUS,
    FRAGMENTED_GPUS,
    *TRAINING_METRICS,
    *NAMESPACE_METRICS,
    CYCLE_DURATION,
    JOB_WRITE_DURATION,
    POLICY_FAILURES,
    API_WRITES,
    API_REQUESTS,
    NODE_AGENT_SILENT,
    NODE_SHARES_MISSING,
    LEADER,
)
"""All metrics of the operator."""

CYCLE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
"""Upper bounds of buckets. No quantile is above the last one."""


Gauges = Callable[[], Iterable[GaugeMetricFamily]]


class _ShownCollector(Collector):
    def __init__(self) -> None:
        self.gauges: Gauges = tuple

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self.gauges()


class Metrics:
    """The operator's registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._shown = _ShownCollector()
        self._registry.register(self._shown)
        registry = self._registry
        ProcessCollector(registry=registry)
        info = Info(BUILD_INFO.name.removesuffix("_info"), BUILD_INFO.help, registry=registry)
        info.info({"component": "operator", "version": version("laneway-operator")})
        self.cycle_duration = _histogram(CYCLE_DURATION, CYCLE_SECONDS, registry)
        self.job_write_duration = _histogram(JOB_WRITE_DURATION, CYCLE_SECONDS, registry)
        self.namespaces = NamespaceMetrics(registry)
        self.policy_failures = _counter(POLICY_FAILURES, registry)
        for stage in POLICY_FAILURES.values["stage"]:
            self.policy_failures.labels(stage)  # begins at 0: else its first increase cannot be seen
        self.api_writes = _counter(API_WRITES, registry)
        self.api_requests = _counter(API_REQUESTS, registry)
        self.leader = Gauge(LEADER.name, LEADER.help, LEADER.labels, registry=registry)

    def show(self, gauges: Gauges) -> None:
        """Set the source of the gauges about jobs and nodes, which is read at each scrape. A replica that does not lead shows none."""
        self._shown.gauges = gauges

    def render(self) -> bytes:
        """Return the page that Prometheus reads."""
        return generate_latest(self._registry)


def gauge(spec: MetricSpec) -> GaugeMetricFamily:
    """Return a gauge without values."""
    return GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)


def _counter(spec: MetricSpec, registry: CollectorRegistry) -> Counter:
    return Counter(spec.name, spec.help, spec.labels, registry=registry)


def _histogram(spec: MetricSpec, buckets: Sequence[float], registry: CollectorRegistry) -> Histogram:
    return Histogram(spec.name, spec.help, spec.labels, buckets=buckets, registry=registry)
