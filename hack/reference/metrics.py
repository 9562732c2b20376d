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

_OBJECTS = {
    ("component", "version"): "1",
    ("model",): "GPU models",
    ("namespace",): "namespaces",
    ("namespace", "training_job"): "unfinished jobs, not suspended",
    ("namespace", "training_job", "node", "gpu_uuid"): "GPUs of each job",
    ("node",): "nodes",
    ("node", "gpu_uuid"): "GPUs",
    ("node", "gpu_uuid", "index", "model"): "GPUs",
    ("node", "gpu_uuid", "lane"): "lanes",
    ("node", "gpu_uuid", "namespace"): "GPUs × namespaces on each",
    ("node", "gpu_uuid", "namespace", "training_job", "pod"): "GPUs of each container",
}
"""What there is a series for, by the labels that name objects."""

_SEEN = {
    "code": "codes seen",
    "method": "methods",
    "queue": "queues",
    "reason": "reasons seen",
    "resource": "kinds",
    "result": "results",
    "verb": "verbs",
    "xid": "XIDs seen",
}
"""Further labels with values that are few and not listed."""

_DERIVED = ("class",)
"""Labels that follow from another one and make no further series."""

_UNITS = ("gpu_seconds", "samples_per_second", "seconds", "bytes", "ratio", "samples", "gpus")

_HEAD = """<!-- Generated from the components' metrics by `make generate`. Do not edit. -->

# Metrics

Every Prometheus metric of the operator, the node agent and the device plugin. The ports are in [contracts.md](contracts.md#ports-and-metrics). These three also have the metrics
of their process (`process_cpu_seconds_total`, `process_resident_memory_bytes`, ...). Only the operator counts its requests to the API server. The
[board](board.md) has no metrics.

- **Series**: how many there are at a time. The series of a job end when it finishes, and when it is suspended and its workers have ended; they go on
  when it is resumed. Its status keeps the figures. The series of a container or lane end with it, those of a namespace an hour after its
  last TrainingJob is gone. A figure that is not known has no series.
  Before the leader's first cycle, and on other replicas, there are no series of jobs and GPU models.
- **`gpu_uuid`** is the label `UUID` of NVIDIA's dcgm-exporter; `node` is its label `Hostname` where
  the exporter runs with the node's name. To join:
  `laneway_job_held_gpus * on (gpu_uuid) group_left () label_replace(DCGM_FI_DEV_POWER_USAGE, "gpu_uuid", "$1", "UUID", "(.+)")`.
- **`training_job`** is the name of the TrainingJob; empty for a pod that is no worker of one.
- Scrape with `honorLabels: true`, as the chart's monitors do: `namespace` and `pod` are those of the job.
"""


def metrics_page() -> str:
    """Returns the text of the page."""
    return formatted("\n".join([_HEAD, *(line for each in METRICS.items() for line in _component(*each))]))


def _component(name: str, metrics: Iterable[MetricSpec]) -> Iterator[str]:
    yield f"\n## {name}\n"
    yield "| metric | type | unit | labels | series | meaning |\n| --- | --- | --- | --- | --- | --- |"
    for metric in metrics:
        labels = ", ".join(_label(label, metric.values.get(label, ())) for label in metric.labels)
        row = (
            f"`{metric.name}`",
            metric.kind,
            _unit(metric),
            labels,
            _series(metric),
            metric.help.replace("<", "&lt;"),
        )
        yield f"| {' | '.join(row)} |"


def _unit(metric: MetricSpec) -> str:
    """Returns the unit that the name ends in; empty for a number."""
    name = metric.name.removesuffix("_total")
    return next((unit.replace("_", " ") for unit in _UNITS if name.endswith(f"_{unit}")), "")


def _series(metric: MetricSpec) -> str:
    """Returns how many series there are.

    Raises:
        KeyError: the labels are new; say here how many series they make.
    """
    labels = [label for label in metric.labels if label not in _DERIVED]
    further = [label for label in labels if label in metric.values or label in _SEEN]
    objects = tuple(label for label in labels if label not in further)
    factors = [_OBJECTS[objects]] if objects else []
    factors += [
        str(len(metric.values[label])) if label in metric.values else _SEEN[label] for label in further
    ]
    if metric.kind == "histogram":
        factors.append("buckets")
    return " × ".join(factors) or "1"


def _label(name: str, values: tuple[str, ...]) -> str:
    return f"`{name}`" + (f" ({', '.join(f'`{value}`' for value in values)})" if values else "")
