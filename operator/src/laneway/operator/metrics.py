"""The operator's Prometheus metrics (docs/contracts.md lists them).

Counters and histograms are counted as things happen. Gauges about jobs are computed from the last cycle's state at each
scrape, so the series of a job vanish with the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from laneway.api.training_job_status import ProfileStatus, ProgressStatus
from laneway.operator.training_metrics import training_metrics
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

JOB_STATES = ("waiting", "starting", "running", "preempting", "paused", "succeeded", "failed", "suspended")

_CYCLE_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAIT_SECONDS = (1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)


@dataclass(frozen=True, slots=True)
class GPUShare:
    """One worker's share of one GPU."""

    node: str
    gpu: str
    percent: int


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One unfinished job."""

    namespace: str
    job: str
    attained_gpu_seconds: float
    waiting_seconds: float | None
    """None while it does not wait."""

    shares: tuple[GPUShare, ...] = ()
    progress: ProgressStatus | None = None
    profile: ProfileStatus | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """All jobs as of the last cycle."""

    jobs: tuple[JobFigures, ...] = ()
    by_state: Mapping[str, int] = field(default_factory=dict)
    by_queue: Mapping[int, int] = field(default_factory=dict)


class _FiguresCollector(Collector):
    def __init__(self) -> None:
        self.figures: Callable[[], Figures] = Figures

    def collect(self) -> Iterable[GaugeMetricFamily]:
        figures = self.figures()
        jobs = GaugeMetricFamily("laneway_jobs", "Jobs by state.", labels=["state"])
        for state in JOB_STATES:
            jobs.add_metric([state], figures.by_state.get(state, 0))
        yield jobs
        queues = GaugeMetricFamily(
            "laneway_queue_jobs", "Unfinished jobs by queue of the order policy.", labels=["queue"]
        )
        for queue, number in sorted(figures.by_queue.items()):
            queues.add_metric([str(queue)], number)
        yield queues
        service = GaugeMetricFamily(
            "laneway_job_attained_service_gpu_seconds",
            "GPU-seconds of attained service of a job.",
            labels=["namespace", "job"],
        )
        waiting = GaugeMetricFamily(
            "laneway_job_waiting_seconds",
            "Time since a waiting job began to wait.",
            labels=["namespace", "job"],
        )
        percent = GaugeMetricFamily(
            "laneway_job_gpu_percent",
            "Percent of a GPU that a job holds.",
            labels=["namespace", "job", "node", "gpu"],
        )
        for job in figures.jobs:
            service.add_metric([job.namespace, job.job], job.attained_gpu_seconds)
            if job.waiting_seconds is not None:
                waiting.add_metric([job.namespace, job.job], job.waiting_seconds)
            for share in job.shares:
                percent.add_metric([job.namespace, job.job, share.node, share.gpu], share.percent)
        yield from (service, waiting, percent)
        yield from training_metrics(
            (job.namespace, job.job, job.progress, job.profile) for job in figures.jobs
        )


class Metrics:
    """The operator's registry."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._figures = _FiguresCollector()
        self._registry.register(self._figures)
        registry = self._registry
        self.wait_duration = Histogram(
            "laneway_job_wait_duration_seconds",
            "Time from waiting to running.",
            buckets=_WAIT_SECONDS,
            registry=registry,
        )
        self.cycle_duration = Histogram(
            "laneway_cycle_duration_seconds",
            "Time of a cycle, from the cache to the writes that it demands.",
            buckets=_CYCLE_SECONDS,
            registry=registry,
        )
        self.job_write_duration = Histogram(
            "laneway_job_write_duration_seconds",
            "Time of a job's writes, from the decision to the last answer.",
            buckets=_CYCLE_SECONDS,
            registry=registry,
        )
        self.preemptions = Counter(
            "laneway_preemptions", "Preemptions of jobs for others.", registry=registry
        )
        self.gang_rollbacks = Counter(
            "laneway_gang_rollbacks", "Attempts of gangs that were rolled back.", registry=registry
        )
        self.api_writes = Counter(
            "laneway_api_writes",
            "Writes to the API server.",
            ["verb", "resource", "result"],
            registry=registry,
        )
        self.api_requests = Counter(
            "laneway_api_requests",
            "Requests to the API server, without those of kopf's watches; WATCH: watches opened.",
            ["method"],
            registry=registry,
        )
        self.leader = Gauge("laneway_leader", "1 while this replica is the leader.", registry=registry)

    def show(self, figures: Callable[[], Figures]) -> None:
        """Set the source of the figures about jobs, which is read at each scrape. A replica that does not lead shows none."""
        self._figures.figures = figures

    def render(self) -> bytes:
        """Return the page that Prometheus reads."""
        return generate_latest(self._registry)
