"""The plugin's Prometheus metrics, in a registry of their own (docs/metrics.md lists them)."""

from __future__ import annotations

from importlib.metadata import version

from laneway.api.metric import BUILD_INFO, MetricSpec
from prometheus_client import CollectorRegistry, Counter, Gauge, Info, ProcessCollector, generate_latest

ALLOCATIONS = MetricSpec(
    "laneway_device_allocations_total",
    "counter",
    "Allocations of GPU shares to containers, by result (granted or refused).",
    ("node", "result"),
    {"result": ("granted", "refused")},
)
REGISTERED = MetricSpec(
    "laneway_device_plugin_registered",
    "gauge",
    "1 while the kubelet has the plugin registered; absent on a node without GPUs.",
    ("node",),
)

METRICS = (BUILD_INFO, ALLOCATIONS, REGISTERED)
"""All metrics of the device plugin."""


class Metrics:
    """Counts granted and refused allocations."""

    def __init__(self, node: str) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        info = Info(BUILD_INFO.name.removesuffix("_info"), BUILD_INFO.help, registry=self._registry)
        info.info({"component": "device-plugin", "version": version("laneway-device-plugin")})
        allocations = Counter(ALLOCATIONS.name, ALLOCATIONS.help, ALLOCATIONS.labels, registry=self._registry)
        # Both series exist from the start: a rate over a series that just appeared misses its first step.
        self._granted = allocations.labels(node, "granted")
        self._refused = allocations.labels(node, "refused")
        self._node = node
        self._registered = Gauge(REGISTERED.name, REGISTERED.help, REGISTERED.labels, registry=self._registry)

    def granted(self) -> None:
        """Count a container that was given its share."""
        self._granted.inc()

    def refused(self) -> None:
        """Count a container that was refused."""
        self._refused.inc()

    def text(self, registered: bool, *, has_gpus: bool = True) -> bytes:
        """Return the exposition in Prometheus' text format. Without GPUs there is nothing to register."""
        if has_gpus:
            self._registered.labels(self._node).set(float(registered))
        else:
            self._registered.clear()
        return generate_latest(self._registry)
