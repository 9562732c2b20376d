"""A Prometheus metric as data: the components expose it, and the reference in docs/metrics.md lists it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple


class MetricSpec(NamedTuple):
    """Name, type and labels of a metric, which are part of a component's contract."""

    name: str
    """As Prometheus stores it: a counter's name ends in ``_total``."""

    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    """Bounded. A label that names an object has the object's lifetime, never that of a passing state such as its lane."""

    values: Mapping[str, tuple[str, ...]] = {}
    """The possible values of a label, where they are few."""


BUILD_INFO = MetricSpec(
    "laneway_build_info",
    "gauge",
    "1, with the component (operator, node-agent or device-plugin) and its version.",
    ("component", "version"),
)
"""Every component exposes it, beside the client library's metrics of its process."""
