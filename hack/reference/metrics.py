"""The page docs/metrics.md: every Prometheus metric of the components, from the specifications that they expose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from laneway.api.metric import MetricSpec
from laneway.device_plugin import metrics as device_plugin
from laneway.node_agent.report import metrics as node_agent
from laneway.operator import metrics as operator

from hack.markdown import formatted

METRICS: dict[str, tuple[MetricSpec, ...]] = {
    "Operator": operator.METRICS,
    "Node agent": node_agent.METRICS,
    "Device plugin": device_plugin.METRICS,
}
"""Metrics by component."""

_HEAD = """<!-- Generated from the components' metrics by `make generate`. Do not edit. -->

# Metrics

The ports are in [contracts.md](contracts.md#ports-and-metrics). The series of a job end when it
finishes, those of a session or lane with it; a figure that is not known has no series.
"""


def metrics_page() -> str:
    """Returns the text of the page."""
    return formatted("\n".join([_HEAD, *(line for each in METRICS.items() for line in _component(*each))]))


def _component(name: str, metrics: Iterable[MetricSpec]) -> Iterator[str]:
    yield f"\n## {name}\n"
    yield "| metric | type | labels | meaning |\n| --- | --- | --- | --- |"
    for metric in metrics:
        labels = ", ".join(_label(label, metric.values.get(label, ())) for label in metric.labels)
        yield f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |"


def _label(name: str, values: tuple[str, ...]) -> str:
    return f"`{name}`" + (f" ({', '.join(f'`{value}`' for value in values)})" if values else "")
