"""The components expose exactly the metrics that they declare, with the declared types."""

from __future__ import annotations

import re

import pytest
from laneway.api.health_config import HealthConfig
from laneway.api.metric import MetricSpec
from laneway.device_plugin.metrics import Metrics as DevicePluginMetrics
from laneway.node_agent.report.metrics import AgentCollector, process_registry
from laneway.operator.cycle.job_figures import no_gauges
from laneway.operator.metrics import Metrics as OperatorMetrics
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from hack.reference.metrics import METRICS


def exposed(page: bytes) -> set[tuple[str, str]]:
    """Name and type of each metric on a page for Prometheus, without the creation times and the process's figures of the library."""
    families = text_string_to_metric_families(page.decode())
    return {
        (family.name + ("_total" if family.type == "counter" else ""), family.type)
        for family in families
        if not family.name.endswith("_created") and not family.name.startswith("process_")
    }


def pages() -> dict[str, bytes]:
    """What each component shows Prometheus, by its name in the reference."""
    agent = process_registry()
    agent.register(AgentCollector("n1", lambda: (), HealthConfig()))
    operator = OperatorMetrics()
    operator.show(no_gauges)
    operator.namespaces.begin("team")
    return {
        "Operator": operator.render(),
        "Node agent": generate_latest(agent),
        "Device plugin": DevicePluginMetrics("n1").text(registered=True),
    }


def test_every_component_exposes_the_metrics_that_it_declares() -> None:
    declared = {name: {(each.name, each.kind) for each in metrics} for name, metrics in METRICS.items()}
    assert {name: exposed(page) for name, page in pages().items()} == declared


@pytest.mark.parametrize("name", METRICS)
def test_every_component_has_its_version_and_its_process(name: str) -> None:
    page = pages()[name].decode()
    assert re.search(r'^laneway_build_info\{component="[a-z-]+",version="[0-9.]+"\} 1.0$', page, re.MULTILINE)
    assert re.search(r"^process_resident_memory_bytes \d", page, re.MULTILINE)


@pytest.mark.parametrize(
    "metric", {each.name: each for of in METRICS.values() for each in of}.values(), ids=lambda m: m.name
)
def test_names_and_labels_follow_the_conventions(metric: MetricSpec) -> None:
    """Prometheus renames labels that it sets itself; a total beside its parts counts twice in a sum."""
    assert not {"job", "instance", "gpu", "UUID"} & set(metric.labels), (
        "a label of targets, or dcgm-exporter's index"
    )
    assert "percent" not in metric.name
    assert metric.name.endswith("_total") is (metric.kind == "counter")
    assert "total" not in {value for values in metric.values.values() for value in values}
    assert "lane" not in metric.labels or "pod" not in metric.labels, "a container changes its lane"
