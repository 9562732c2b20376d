"""Prometheus metrics from snapshots (docs/metrics.md lists them).

Nothing is stored here: a series exists as long as its object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from itertools import product

from laneway.api.gpu_node import SessionState
from laneway.api.health_config import HealthConfig
from laneway.api.metric import BUILD_INFO, MetricSpec
from laneway.node_agent.enforcement import violation
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.gpus.xids import XidClass, severity_of
from laneway.node_agent.report.snapshot import GPUSnapshot, LeaseSnapshot
from laneway.node_agent.turns.turn_log import BUCKETS_SECONDS
from prometheus_client import CollectorRegistry, Info, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

GPUs = Sequence[tuple[GPUSnapshot, GPUHealth]]

_GPU = ("node", "gpu_uuid")
_SESSION = (*_GPU, "namespace", "training_job", "pod")

GPU_MEMORY = MetricSpec(
    "laneway_gpu_memory_bytes",
    "gauge",
    "Memory of a GPU by use. The kinds add up to its memory; free is what the safety condition leaves for further jobs.",
    (*_GPU, "kind"),
    {"kind": ("reserve", "persistent", "ephemeral", "free")},
)
GPU_INFO = MetricSpec(
    "laneway_gpu_info",
    "gauge",
    "1 for each GPU, with its number on the node and its model.",
    (*_GPU, "index", "model"),
)
GPU_HEALTHY = MetricSpec("laneway_gpu_healthy", "gauge", "1 while the GPU is healthy.", _GPU)
GPU_XID_ERRORS = MetricSpec(
    "laneway_gpu_xid_errors_total",
    "counter",
    "XID errors of a GPU since the agent started, and what follows from them; ignored: an application's error.",
    (*_GPU, "xid", "class"),
    {"class": tuple(each.value for each in XidClass)},
)
GPU_LAST_XID = MetricSpec(
    "laneway_gpu_last_xid_timestamp_seconds",
    "gauge",
    "Unix time of the last error of a GPU with an XID since the agent started.",
    (*_GPU, "xid", "class"),
    {"class": tuple(each.value for each in XidClass)},
)
GPU_UTILIZATION = MetricSpec(
    "laneway_gpu_utilization_ratio", "gauge", "Fraction of time in which the GPU computes.", _GPU
)
GPU_FOREIGN_PROCESSES = MetricSpec(
    "laneway_gpu_foreign_processes",
    "gauge",
    "Processes that use a GPU without a share of it, in a pod or of the host.",
    (*_GPU, "kind"),
    {"kind": ("pod", "host")},
)
GPU_ENFORCEMENT_LOWERED = MetricSpec(
    "laneway_gpu_enforcement_lowered",
    "gauge",
    "1 while the enforcement of a GPU is below the level that the node's configuration requests.",
    _GPU,
)
GPU_LANES = MetricSpec("laneway_gpu_lanes", "gauge", "Number of lanes of a GPU.", _GPU)
LANE_EPHEMERAL = MetricSpec(
    "laneway_lane_ephemeral_bytes", "gauge", "Ephemeral memory of a lane.", (*_GPU, "lane")
)
SESSION_PERSISTENT = MetricSpec(
    "laneway_session_persistent_bytes",
    "gauge",
    "Measured memory that a container keeps between iterations.",
    _SESSION,
)
SESSION_EPHEMERAL = MetricSpec(
    "laneway_session_ephemeral_bytes",
    "gauge",
    "Measured additional memory that a container uses inside an iteration.",
    _SESSION,
)
SESSION_QUOTA = MetricSpec("laneway_session_quota_bytes", "gauge", "Memory quota of a container.", _SESSION)
SESSION_HELD = MetricSpec(
    "laneway_session_held_bytes", "gauge", "Memory that a container's processes report holding.", _SESSION
)
SESSION_OFFLOADED = MetricSpec(
    "laneway_session_offloaded_bytes",
    "gauge",
    "Memory that a container's processes have offloaded to the host.",
    _SESSION,
)
SESSION_ACCOUNTED = MetricSpec(
    "laneway_session_accounted_bytes",
    "gauge",
    "Memory that a container's processes have reserved through the memory interposer.",
    _SESSION,
)
SESSIONS = MetricSpec(
    "laneway_sessions",
    "gauge",
    "Containers that hold a share of a GPU, by state.",
    (*_GPU, "state"),
    {"state": tuple(SessionState)},
)
TURNS = MetricSpec("laneway_turns_total", "counter", "Turns granted to a container.", _SESSION)
ITERATIONS = MetricSpec(
    "laneway_iterations_total", "counter", "Iterations completed by a container.", _SESSION
)
USED_GPU_SECONDS = MetricSpec(
    "laneway_used_gpu_seconds_total",
    "counter",
    "Time that the processes of a container spent inside iterations.",
    _SESSION,
)
DATA_SECONDS = MetricSpec(
    "laneway_data_seconds_total",
    "counter",
    "Time of the processes of a container between iterations without waits for turns, mostly for loading data.",
    _SESSION,
)
SESSION_PROGRESS = MetricSpec(
    "laneway_session_progress_ratio",
    "gauge",
    "Recent progress of a container that competes with other lanes, as a part of its progress alone.",
    _SESSION,
)
UNSCHEDULED_SECONDS = MetricSpec(
    "laneway_unscheduled_seconds_total",
    "counter",
    "Time for which a container computed without a turn while others of its lane wanted one, as the driver samples it.",
    _SESSION,
)
REFUSED_ALLOCATIONS = MetricSpec(
    "laneway_refused_allocations_total",
    "counter",
    "Allocations of a container that the memory interposer refused because of its quota.",
    _SESSION,
)
TURN_DURATION = MetricSpec(
    "laneway_turn_duration_seconds", "histogram", "Duration of turns, from grant to release.", _GPU
)
TURN_WAIT = MetricSpec(
    "laneway_turn_wait_seconds", "histogram", "Waiting time for turns, from request to grant.", _GPU
)
TURNS_REVOKED = MetricSpec(
    "laneway_turns_revoked_total",
    "counter",
    "Turns revoked from holders that did not yield.",
    (*_GPU, "reason"),
)
EVICTIONS = MetricSpec(
    "laneway_watchdog_evictions_total",
    "counter",
    "Containers whose processes the node agent stopped, by the limit that they violated.",
    (*_GPU, "namespace", "reason"),
    {"reason": violation.REASONS},
)
SESSION_STEP = MetricSpec(
    "laneway_session_step", "gauge", "Completed training steps, as last reported.", _SESSION
)
SESSION_STEPS = MetricSpec(
    "laneway_session_steps", "gauge", "Total training steps, as last reported.", _SESSION
)
SESSION_LOSS = MetricSpec("laneway_session_loss", "gauge", "Training loss, as last reported.", _SESSION)

METRICS = (
    BUILD_INFO,
    GPU_INFO,
    GPU_MEMORY,
    GPU_HEALTHY,
    GPU_XID_ERRORS,
    GPU_LAST_XID,
    GPU_UTILIZATION,
    GPU_FOREIGN_PROCESSES,
    GPU_ENFORCEMENT_LOWERED,
    GPU_LANES,
    LANE_EPHEMERAL,
    SESSION_PERSISTENT,
    SESSION_EPHEMERAL,
    SESSION_QUOTA,
    SESSION_HELD,
    SESSION_OFFLOADED,
    SESSION_ACCOUNTED,
    SESSIONS,
    TURNS,
    ITERATIONS,
    USED_GPU_SECONDS,
    DATA_SECONDS,
    UNSCHEDULED_SECONDS,
    SESSION_PROGRESS,
    REFUSED_ALLOCATIONS,
    TURN_DURATION,
    TURN_WAIT,
    TURNS_REVOKED,
    EVICTIONS,
    SESSION_STEP,
    SESSION_STEPS,
    SESSION_LOSS,
)
"""All metrics of the node agent."""


def process_registry() -> CollectorRegistry:
    """Return a registry with the agent's version and the figures of its process."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    info = Info(BUILD_INFO.name.removesuffix("_info"), BUILD_INFO.help, registry=registry)
    info.info({"component": "node-agent", "version": version("laneway-node-agent")})
    return registry


class AgentCollector:
    """Builds all metrics for every scrape."""

    def __init__(self, node: str, snapshots: Callable[[], GPUs], health: HealthConfig) -> None:
        self._node = node
        self._snapshots = snapshots
        self._health = health

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        gpus = self._snapshots()
        yield from self._gpu_metrics(gpus)
        yield from self._lane_metrics(gpus)
        yield from self._session_metrics(gpus)
        yield from self._turn_metrics(gpus)
        yield self._evictions(gpus)
        yield from self._report_metrics(gpus)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, because registering must not take a snapshot."""
        return ()

    def _gpu_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        info = _gauge(GPU_INFO)
        memory = _gauge(GPU_MEMORY)
        healthy = _gauge(GPU_HEALTHY)
        xids = _counter(GPU_XID_ERRORS)
        last_xids = _gauge(GPU_LAST_XID)
        utilization = _gauge(GPU_UTILIZATION)
        foreign = _gauge(GPU_FOREIGN_PROCESSES)
        lowered = _gauge(GPU_ENFORCEMENT_LOWERED)
        for snapshot, health in gpus:
            gpu = snapshot.gpu
            info.add_metric([self._node, gpu.uuid, str(gpu.index), gpu.model], 1)
            ephemeral_bytes = sum(lane.ephemeral_bytes for lane in snapshot.lanes)
            kinds = {
                "reserve": gpu.memory_bytes - gpu.allocatable_bytes,
                "persistent": snapshot.promised_bytes - ephemeral_bytes,
                "ephemeral": ephemeral_bytes,
                "free": gpu.allocatable_bytes - snapshot.promised_bytes,
            }
            for kind, size_bytes in kinds.items():
                memory.add_metric([self._node, gpu.uuid, kind], size_bytes)
            healthy.add_metric([self._node, gpu.uuid], 1 if health.healthy else 0)
            for number, count in sorted(health.xids.items()):
                labels = [self._node, gpu.uuid, str(number), severity_of(number, self._health).value]
                xids.add_metric(labels, count)
                last_xids.add_metric(labels, health.last_xids[number])
            if health.reading is not None and health.reading.utilization_ratio is not None:
                utilization.add_metric([self._node, gpu.uuid], health.reading.utilization_ratio)
            in_pods = sum(use.processes for use in snapshot.strays.pods)
            foreign.add_metric([self._node, gpu.uuid, "pod"], in_pods)
            foreign.add_metric([self._node, gpu.uuid, "host"], snapshot.strays.host_processes)
            lowered.add_metric([self._node, gpu.uuid], 1 if gpu.enforcement_reason else 0)
        yield info
        yield memory
        yield healthy
        yield xids
        yield last_xids
        yield utilization
        yield foreign
        yield lowered

    def _lane_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        lanes = _gauge(GPU_LANES)
        sizes = _gauge(LANE_EPHEMERAL)
        for snapshot, _ in gpus:
            lanes.add_metric([self._node, snapshot.gpu.uuid], len(snapshot.lanes))
            for lane in snapshot.lanes:
                sizes.add_metric([self._node, snapshot.gpu.uuid, str(lane.id)], lane.ephemeral_bytes)
        yield lanes
        yield sizes

    def _session_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        persistent = _gauge(SESSION_PERSISTENT)
        ephemeral = _gauge(SESSION_EPHEMERAL)
        quota = _gauge(SESSION_QUOTA)
        held = _gauge(SESSION_HELD)
        offloaded = _gauge(SESSION_OFFLOADED)
        accounted = _gauge(SESSION_ACCOUNTED)
        for gpu, lease in _leases(gpus):
            values = _session_labels(self._node, gpu, lease)
            quota.add_metric(values, lease.quota_bytes)
            held.add_metric(values, lease.held_bytes)
            offloaded.add_metric(values, lease.offloaded_bytes)
            accounted.add_metric(values, lease.accounted_bytes)
            if lease.sizes is not None:
                persistent.add_metric(values, lease.sizes.persistent_bytes + lease.sizes.framework_bytes)
                ephemeral.add_metric(values, lease.sizes.ephemeral_bytes)
        yield persistent
        yield ephemeral
        yield quota
        yield held
        yield offloaded
        yield accounted
        yield _states(self._node, gpus)

    def _turn_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        turns = _counter(TURNS)
        iterations = _counter(ITERATIONS)
        seconds = _counter(USED_GPU_SECONDS)
        data = _counter(DATA_SECONDS)
        progress = _gauge(SESSION_PROGRESS)
        unscheduled = _counter(UNSCHEDULED_SECONDS)
        refused = _counter(REFUSED_ALLOCATIONS)
        for gpu, lease in _leases(gpus):
            values = _session_labels(self._node, gpu, lease)
            turns.add_metric(values, lease.turns)
            iterations.add_metric(values, lease.iterations)
            seconds.add_metric(values, lease.busy_seconds)
            data.add_metric(values, lease.data_seconds)
            unscheduled.add_metric(values, lease.unscheduled_seconds)
            if lease.progress_ratio is not None:
                progress.add_metric(values, lease.progress_ratio)
            refused.add_metric(values, lease.refusals)
        yield turns
        yield iterations
        yield seconds
        yield data
        yield unscheduled
        yield progress
        yield refused
        durations = _histogram(TURN_DURATION)
        waits = _histogram(TURN_WAIT)
        revoked = _counter(TURNS_REVOKED)
        for snapshot, _ in gpus:
            values = [self._node, snapshot.gpu.uuid]
            durations.add_metric(values, _buckets(snapshot.durations[0]), snapshot.durations[1])
            waits.add_metric(values, _buckets(snapshot.waits[0]), snapshot.waits[1])
            for reason in {"stalled", *snapshot.revoked}:
                revoked.add_metric([*values, reason], snapshot.revoked.get(reason, 0))
        yield durations
        yield waits
        yield revoked

    def _evictions(self, gpus: GPUs) -> Metric:
        """Return the evictions. A namespace's series begin at 0 with its first container: else no increase shows the first eviction."""
        evictions = _counter(EVICTIONS)
        for snapshot, _ in gpus:
            namespaces = {lease.record.namespace for lease in snapshot.leases}
            namespaces |= {namespace for namespace, _ in snapshot.evictions}
            for namespace, reason in product(sorted(namespaces), violation.REASONS):
                labels = [self._node, snapshot.gpu.uuid, namespace, reason]
                evictions.add_metric(labels, snapshot.evictions.get((namespace, reason), 0))
        return evictions

    def _report_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        step = _gauge(SESSION_STEP)
        steps = _gauge(SESSION_STEPS)
        loss = _gauge(SESSION_LOSS)
        for gpu, lease in _leases(gpus):
            report = lease.report
            values = _session_labels(self._node, gpu, lease)
            if report is not None and report.step is not None:
                step.add_metric(values, report.step)
            if report is not None and report.steps is not None:
                steps.add_metric(values, report.steps)
            if report is not None and report.loss is not None:
                loss.add_metric(values, float(report.loss))
        yield from (step, steps, loss)


def _states(node: str, gpus: GPUs) -> Metric:
    """Return the number of containers of a GPU by state."""
    states = _gauge(SESSIONS)
    for snapshot, _ in gpus:
        counts = Counter(lease.state.value for lease in snapshot.leases)
        for state in SessionState:
            states.add_metric([node, snapshot.gpu.uuid, state.value], counts[state.value])
    return states


def _leases(gpus: GPUs) -> Iterator[tuple[str, LeaseSnapshot]]:
    """Return the running containers, one per pod and GPU, as the labels require."""
    for snapshot, _ in gpus:
        seen = set()
        for lease in snapshot.leases:
            identity = (lease.record.namespace, lease.record.pod)
            if lease.state != "Ended" and identity not in seen:
                seen.add(identity)
                yield snapshot.gpu.uuid, lease


def _session_labels(node: str, gpu: str, lease: LeaseSnapshot) -> list[str]:
    record = lease.record
    return [node, gpu, record.namespace, record.job or "", record.pod]


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*BUCKETS_SECONDS, None], counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else str(bound), total))
    return buckets


def _gauge(spec: MetricSpec) -> GaugeMetricFamily:
    return GaugeMetricFamily(spec.name, spec.help, labels=spec.labels)


def _counter(spec: MetricSpec) -> CounterMetricFamily:
    return CounterMetricFamily(spec.name, spec.help, labels=spec.labels)


def _histogram(spec: MetricSpec) -> HistogramMetricFamily:
    return HistogramMetricFamily(spec.name, spec.help, labels=spec.labels)
