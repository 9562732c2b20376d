"""The series of a namespace begin with its first job, and end an hour after its last one is gone."""

from __future__ import annotations

from laneway.operator.namespace_metrics import KEPT_SECONDS, NamespaceMetrics
from prometheus_client import CollectorRegistry

from tests.unit.operator.builders import NOW


def namespaces(registry: CollectorRegistry) -> set[str]:
    return {sample.labels["namespace"] for metric in registry.collect() for sample in metric.samples}


def test_series_end_an_hour_after_the_last_job() -> None:
    registry = CollectorRegistry()
    metrics = NamespaceMetrics(registry)
    for namespace in ("a", "b"):
        metrics.begin(namespace)
    metrics.end_unused({"a", "b"}, NOW)
    metrics.end_unused({"a"}, NOW + 10)
    metrics.end_unused({"a"}, NOW + 9 + KEPT_SECONDS)
    assert namespaces(registry) == {"a", "b"}
    metrics.end_unused({"a"}, NOW + 10 + KEPT_SECONDS)
    assert namespaces(registry) == {"a"}


def test_a_job_that_comes_within_the_hour_keeps_them() -> None:
    registry = CollectorRegistry()
    metrics = NamespaceMetrics(registry)
    metrics.begin("a")
    for used, seconds in (((), 0.0), (("a",), 1800.0), ((), 1900.0), ((), 1900.0 + KEPT_SECONDS - 1)):
        metrics.end_unused(used, NOW + seconds)
    assert namespaces(registry) == {"a"}


def test_a_namespace_that_comes_back_begins_at_0() -> None:
    registry = CollectorRegistry()
    metrics = NamespaceMetrics(registry)
    metrics.begin("a")
    metrics.restarts.labels("a").inc()
    metrics.end_unused((), NOW)
    metrics.end_unused((), NOW + KEPT_SECONDS)
    assert namespaces(registry) == set()
    metrics.begin("a")
    assert registry.get_sample_value("laneway_restarts_total", {"namespace": "a"}) == 0
