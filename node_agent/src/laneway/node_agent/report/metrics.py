"""Prometheus metrics from snapshots (names and labels: docs/contracts.md, "Ports and metrics").

Nothing is stored here: a series exists as long as its object.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from laneway.api.gpu_node import SessionState
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.report.snapshot import GPUSnapshot, LeaseSnapshot
from laneway.node_agent.turns.turn_log import BUCKETS_SECONDS
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

GPUs = Sequence[tuple[GPUSnapshot, GPUHealth]]


class AgentCollector:
    """Builds all metrics for every scrape."""

    def __init__(self, node: str, snapshots: Callable[[], GPUs]) -> None:
        self._node = node
        self._snapshots = snapshots

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics."""
        gpus = self._snapshots()
        yield from self._gpu_metrics(gpus)
        yield from self._lane_metrics(gpus)
        yield from self._session_metrics(gpus)
        yield from self._turn_metrics(gpus)
        yield from self._report_metrics(gpus)

    def describe(self) -> Iterable[Metric]:
        """Return nothing, because registering must not take a snapshot."""
        return ()

    def _gpu_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        memory = GaugeMetricFamily(
            "laneway_gpu_memory_bytes",
            "Memory of a GPU by kind: total, reserve, persistent, ephemeral, free.",
            labels=["node", "gpu", "model", "kind"],
        )
        healthy = GaugeMetricFamily(
            "laneway_gpu_healthy", "1 while the GPU is healthy.", labels=["node", "gpu"]
        )
        xids = CounterMetricFamily(
            "laneway_gpu_xid_errors",
            "XID errors of a GPU since the agent started.",
            labels=["node", "gpu", "xid"],
        )
        utilization = GaugeMetricFamily(
            "laneway_gpu_utilization_ratio",
            "Fraction of time in which the GPU computes.",
            labels=["node", "gpu"],
        )
        for snapshot, health in gpus:
            gpu = snapshot.gpu
            ephemeral_bytes = sum(lane.ephemeral_bytes for lane in snapshot.lanes)
            kinds = {
                "total": gpu.memory_bytes,
                "reserve": gpu.memory_bytes - gpu.allocatable_bytes,
                "persistent": snapshot.promised_bytes - ephemeral_bytes,
                "ephemeral": ephemeral_bytes,
                "free": gpu.allocatable_bytes - snapshot.promised_bytes,
            }
            for kind, size_bytes in kinds.items():
                memory.add_metric([self._node, gpu.uuid, gpu.model, kind], size_bytes)
            healthy.add_metric([self._node, gpu.uuid], 1 if health.healthy else 0)
            for number, count in sorted(health.xids.items()):
                xids.add_metric([self._node, gpu.uuid, str(number)], count)
            if health.reading is not None and health.reading.utilization_ratio is not None:
                utilization.add_metric([self._node, gpu.uuid], health.reading.utilization_ratio)
        yield memory
        yield healthy
        yield xids
        yield utilization

    def _lane_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        lanes = GaugeMetricFamily("laneway_gpu_lanes", "Number of lanes of a GPU.", labels=["node", "gpu"])
        sizes = GaugeMetricFamily(
            "laneway_lane_ephemeral_bytes", "Ephemeral memory of a lane.", labels=["node", "gpu", "lane"]
        )
        for snapshot, _ in gpus:
            lanes.add_metric([self._node, snapshot.gpu.uuid], len(snapshot.lanes))
            for lane in snapshot.lanes:
                sizes.add_metric([self._node, snapshot.gpu.uuid, str(lane.id)], lane.ephemeral_bytes)
        yield lanes
        yield sizes

    def _session_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        labels = ["node", "gpu", "lane", "namespace", "pod"]
        persistent = GaugeMetricFamily(
            "laneway_session_persistent_bytes",
            "Measured memory that a container keeps between iterations.",
            labels=labels,
        )
        ephemeral = GaugeMetricFamily(
            "laneway_session_ephemeral_bytes",
            "Measured additional memory that a container uses inside an iteration.",
            labels=labels,
        )
        quota = GaugeMetricFamily(
            "laneway_session_quota_bytes", "Memory quota of a container.", labels=labels
        )
        held = GaugeMetricFamily(
            "laneway_session_held_bytes", "Memory that a container's processes report holding.", labels=labels
        )
        offloaded = GaugeMetricFamily(
            "laneway_session_offloaded_bytes",
            "Memory that a container's processes have offloaded to the host.",
            labels=labels,
        )
        for gpu, lease in _leases(gpus):
            lane = "" if lease.lane is None else str(lease.lane)
            values = [self._node, gpu, lane, lease.record.namespace, lease.record.pod]
            quota.add_metric(values, lease.quota_bytes)
            held.add_metric(values, lease.held_bytes)
            offloaded.add_metric(values, lease.offloaded_bytes)
            if lease.sizes is not None:
                persistent.add_metric(values, lease.sizes.persistent_bytes + lease.sizes.framework_bytes)
                ephemeral.add_metric(values, lease.sizes.ephemeral_bytes)
        yield persistent
        yield ephemeral
        yield quota
        yield held
        yield offloaded
        yield _states(self._node, gpus)

    def _turn_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        labels = ["node", "gpu", "namespace", "pod"]
        turns = CounterMetricFamily("laneway_turns", "Turns granted to a container.", labels=labels)
        iterations = CounterMetricFamily(
            "laneway_iterations", "Iterations completed by a container.", labels=labels
        )
        seconds = CounterMetricFamily(
            "laneway_gpu_seconds", "Time that a container spent inside iterations.", labels=labels
        )
        data = CounterMetricFamily(
            "laneway_data_seconds",
            "Time between iterations without waiting for turns, mostly for loading data.",
            labels=labels,
        )
        for gpu, lease in _leases(gpus):
            values = [self._node, gpu, lease.record.namespace, lease.record.pod]
            turns.add_metric(values, lease.turns)
            iterations.add_metric(values, lease.iterations)
            seconds.add_metric(values, lease.busy_seconds)
            data.add_metric(values, lease.data_seconds)
        yield turns
        yield iterations
        yield seconds
        yield data
        durations = HistogramMetricFamily(
            "laneway_turn_duration_seconds",
            "Duration of turns, from grant to release.",
            labels=["node", "gpu"],
        )
        waits = HistogramMetricFamily(
            "laneway_turn_wait_seconds",
            "Waiting time for turns, from request to grant.",
            labels=["node", "gpu"],
        )
        revoked = CounterMetricFamily(
            "laneway_turns_revoked",
            "Turns revoked from holders that did not yield.",
            labels=["node", "gpu", "reason"],
        )
        for snapshot, _ in gpus:
            values = [self._node, snapshot.gpu.uuid]
            durations.add_metric(values, _buckets(snapshot.durations[0]), snapshot.durations[1])
            waits.add_metric(values, _buckets(snapshot.waits[0]), snapshot.waits[1])
            for reason in {"stalled", *snapshot.revoked}:
                revoked.add_metric([*values, reason], snapshot.revoked.get(reason, 0))
        yield durations
        yield waits
        yield revoked

    def _report_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        labels = ["node", "gpu", "namespace", "pod"]
        step = GaugeMetricFamily(
            "laneway_session_step", "Completed training steps, as last reported.", labels=labels
        )
        steps = GaugeMetricFamily(
            "laneway_session_steps", "Total training steps, as last reported.", labels=labels
        )
        loss = GaugeMetricFamily("laneway_session_loss", "Training loss, as last reported.", labels=labels)
        for gpu, lease in _leases(gpus):
            report = lease.report
            values = [self._node, gpu, lease.record.namespace, lease.record.pod]
            if report is not None and report.step is not None:
                step.add_metric(values, report.step)
            if report is not None and report.steps is not None:
                steps.add_metric(values, report.steps)
            if report is not None and report.loss is not None:
                loss.add_metric(values, float(report.loss))
        yield from (step, steps, loss)


def _states(node: str, gpus: GPUs) -> Metric:
    """Return the number of containers of a GPU by state."""
    states = GaugeMetricFamily(
        "laneway_sessions",
        "Containers that hold a share of a GPU, by state.",
        labels=["node", "gpu", "state"],
    )
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


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*BUCKETS_SECONDS, None], counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else str(bound), total))
    return buckets
