"""The components expose exactly the metrics that they declare, with the declared types."""

from __future__ import annotations

from laneway.api.health_config import HealthConfig
from laneway.device_plugin.metrics import Metrics as DevicePluginMetrics
from laneway.node_agent.report.metrics import AgentCollector, process_registry
from laneway.operator.cycle.job_figures import no_job_gauges
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


def test_every_component_exposes_the_metrics_that_it_declares() -> None:
    agent = process_registry()
    agent.register(AgentCollector("n1", lambda: (), HealthConfig()))
    operator = OperatorMetrics()
    operator.show(no_job_gauges)
    pages = {
        "Operator": operator.render(),
        "Node agent": generate_latest(agent),
        "Device plugin": DevicePluginMetrics("n1").text(registered=True),
    }
    declared = {name: {(each.name, each.kind) for each in metrics} for name, metrics in METRICS.items()}
    assert {name: exposed(page) for name, page in pages.items()} == declared
