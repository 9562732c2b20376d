"""Prometheus metrics from snapshots (names and labels: docs/contracts.md, "Ports and metrics").

Nothing is kept here: a series is there as long as what it is about is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from laneway.api.gpu_node import SessionState
from laneway.node_agent.gpus.monitor import GPUHealth
from laneway.node_agent.report.snapshot import GPUSnapshot, HoldSnapshot
from laneway.node_agent.turns.turn_log import BUCKETS_SECONDS
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

GPUs = Sequence[tuple[GPUSnapshot, GPUHealth]]


class AgentCollector:
    """Builds all metrics anew for every scrape."""

    def __init__(self, node: str, look: Callable[[], GPUs]) -> None:
        self._node = node
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of the moment."""
        gpus = self._look()
        yield from self._gpu_metrics(gpus)
        yield from self._lane_metrics(gpus)
        yield from self._session_metrics(gpus)
        yield from self._turn_metrics(gpus)
        yield from self._report_metrics(gpus)

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering must not take a snapshot."""
        return ()

    def _gpu_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        memory = GaugeMetricFamily(
            "laneway_gpu_memory_bytes",
            "Memory of a GPU: all, kept for frameworks, and what is promised to sessions or free.",
            labels=["node", "gpu", "model", "kind"],
        )
        healthy = GaugeMetricFamily(
            "laneway_gpu_healthy", "1 while the GPU is healthy.", labels=["node", "gpu"]
        )
        xids = CounterMetricFamily(
            "laneway_gpu_xid_errors", "XID errors of a GPU.", labels=["node", "gpu", "xid"]
        )
        utilization = GaugeMetricFamily(
            "laneway_gpu_utilization_ratio",
            "Part of the time in which the GPU computes.",
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
        lanes = GaugeMetricFamily("laneway_gpu_lanes", "Lanes of a GPU.", labels=["node", "gpu"])
        sizes = GaugeMetricFamily(
            "laneway_lane_ephemeral_bytes", "Size of a lane.", labels=["node", "gpu", "lane"]
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
            "laneway_session_persistent_bytes", "Measured: kept between iterations.", labels=labels
        )
        ephemeral = GaugeMetricFamily(
            "laneway_session_ephemeral_bytes",
            "Measured: used beyond that inside an iteration.",
            labels=labels,
        )
        quota = GaugeMetricFamily(
            "laneway_session_quota_bytes", "What the share entitles to of the GPU's memory.", labels=labels
        )
        held = GaugeMetricFamily(
            "laneway_session_held_bytes", "What its processes say they hold now.", labels=labels
        )
        offloaded = GaugeMetricFamily(
            "laneway_session_offloaded_bytes", "What they have moved to the host by order.", labels=labels
        )
        for gpu, hold in _holds(gpus):
            lane = "" if hold.lane is None else str(hold.lane)
            values = [self._node, gpu, lane, hold.record.namespace, hold.record.pod]
            quota.add_metric(values, hold.quota_bytes)
            held.add_metric(values, hold.held_bytes)
            offloaded.add_metric(values, hold.offloaded_bytes)
            if hold.sizes is not None:
                persistent.add_metric(values, hold.sizes.persistent_bytes + hold.sizes.framework_bytes)
                ephemeral.add_metric(values, hold.sizes.ephemeral_bytes)
        yield persistent
        yield ephemeral
        yield quota
        yield held
        yield offloaded
        yield _states(self._node, gpus)

    def _turn_metrics(self, gpus: GPUs) -> Iterator[Metric]:
        labels = ["node", "gpu", "namespace", "pod"]
        turns = CounterMetricFamily("laneway_turns", "Turns granted.", labels=labels)
        iterations = CounterMetricFamily("laneway_iterations", "Iterations completed.", labels=labels)
        seconds = CounterMetricFamily("laneway_gpu_seconds", "Time inside iterations.", labels=labels)
        data = CounterMetricFamily(
            "laneway_data_seconds",
            "Time between iterations that was no wait for a turn: loading of data, mostly.",
            labels=labels,
        )
        for gpu, hold in _holds(gpus):
            values = [self._node, gpu, hold.record.namespace, hold.record.pod]
            turns.add_metric(values, hold.turns)
            iterations.add_metric(values, hold.iterations)
            seconds.add_metric(values, hold.busy_seconds)
            data.add_metric(values, hold.data_seconds)
        yield turns
        yield iterations
        yield seconds
        yield data
        durations = HistogramMetricFamily(
            "laneway_turn_duration_seconds", "From grant to release.", labels=["node", "gpu"]
        )
        waits = HistogramMetricFamily(
            "laneway_turn_wait_seconds", "From request to grant.", labels=["node", "gpu"]
        )
        revoked = CounterMetricFamily(
            "laneway_turns_revoked", "Turns taken away.", labels=["node", "gpu", "reason"]
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
        step = GaugeMetricFamily("laneway_session_step", "Steps done, as last reported.", labels=labels)
        steps = GaugeMetricFamily("laneway_session_steps", "Steps in all, as last reported.", labels=labels)
        loss = GaugeMetricFamily("laneway_session_loss", "The loss, as last reported.", labels=labels)
        for gpu, hold in _holds(gpus):
            report = hold.report
            values = [self._node, gpu, hold.record.namespace, hold.record.pod]
            if report is not None and report.step is not None:
                step.add_metric(values, report.step)
            if report is not None and report.steps is not None:
                steps.add_metric(values, report.steps)
            if report is not None and report.loss is not None:
                loss.add_metric(values, float(report.loss))
        yield from (step, steps, loss)


def _states(node: str, gpus: GPUs) -> Metric:
    """Return how many containers of a GPU are in which state."""
    states = GaugeMetricFamily(
        "laneway_sessions", "Containers that hold a share of a GPU.", labels=["node", "gpu", "state"]
    )
    for snapshot, _ in gpus:
        counts = Counter(hold.state.value for hold in snapshot.holds)
        for state in SessionState:
            states.add_metric([node, snapshot.gpu.uuid, state.value], counts[state.value])
    return states


def _holds(gpus: GPUs) -> Iterator[tuple[str, HoldSnapshot]]:
    """Return the containers that live; one a pod and GPU, as the labels have it."""
    for snapshot, _ in gpus:
        seen = set()
        for hold in snapshot.holds:
            identity = (hold.record.namespace, hold.record.pod)
            if hold.state != "Ended" and identity not in seen:
                seen.add(identity)
                yield snapshot.gpu.uuid, hold


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip([*BUCKETS_SECONDS, None], counts, strict=True):
        total += count
        buckets.append(("+Inf" if bound is None else str(bound), total))
    return buckets
