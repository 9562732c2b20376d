"""What the metrics show."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.operator.cycle.cycle import Cycle
from laneway.operator.cycle.write_history import WriteHistory
from laneway.operator.state.cluster_state import ClusterState
from laneway.scheduling.config.operator_config import OperatorConfig
from prometheus_client.core import GaugeMetricFamily

from tests.unit.operator.builders.moment import NOW


def samples_of(gauges: Iterable[GaugeMetricFamily]) -> dict[tuple[str, ...], float]:
    """The values that Prometheus reads, other than 0, by name and labels: ``("laneway_jobs", "ns", "waiting")``."""
    samples = (sample for gauge in gauges for sample in gauge.samples)
    return {(each.name, *each.labels.values()): each.value for each in samples if each.value}


def gauges_of(view: ClusterState) -> dict[tuple[str, ...], float]:
    """What the metrics show after a cycle that sees the cluster for the first time."""
    config = OperatorConfig()
    cycle = Cycle(config)
    cycle.run(view, WriteHistory({}, {}), NOW)
    return samples_of(cycle.gauges(NOW))


def states_of(gauges: dict[tuple[str, ...], float]) -> dict[str, float]:
    """How many jobs are in each state."""
    return {key[2]: value for key, value in gauges.items() if key[0] == "laneway_jobs"}
