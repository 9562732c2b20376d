"""The plugin's Prometheus metrics, in a registry of their own."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest


class Metrics:
    """Counts granted and refused allocations."""

    def __init__(self, node: str) -> None:
        self._registry = CollectorRegistry()
        allocations = Counter(
            "laneway_device_allocations",
            "Allocations of GPU shares to containers, by result (granted or refused).",
            ["node", "result"],
            registry=self._registry,
        )
        # Both series exist from the start: a rate over a series that just appeared misses its first step.
        self._granted = allocations.labels(node, "granted")
        self._refused = allocations.labels(node, "refused")
        self._registered = Gauge(
            "laneway_device_plugin_registered",
            "1 while the kubelet has the plugin registered.",
            ["node"],
            registry=self._registry,
        ).labels(node)

    def granted(self) -> None:
        """Count a container that was given its share."""
        self._granted.inc()

    def refused(self) -> None:
        """Count a container that was refused."""
        self._refused.inc()

    def text(self, registered: bool) -> bytes:
        """Return the exposition in Prometheus' text format."""
        self._registered.set(float(registered))
        return generate_latest(self._registry)
