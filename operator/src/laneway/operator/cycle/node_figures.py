"""Which parts of nodes are missing, as gauges for Prometheus. Their series begin and end with the Node."""

from __future__ import annotations

from collections.abc import Iterator

from laneway.api.names import GPU_PERCENT
from laneway.operator import metrics
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.node_record import NodeRecord
from prometheus_client.core import GaugeMetricFamily


def node_gauges(state: ClusterState) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges of the nodes that have a GPUNode."""
    silent = metrics.gauge(metrics.NODE_AGENT_SILENT)
    missing = metrics.gauge(metrics.NODE_SHARES_MISSING)
    for name, gpu_node in sorted(state.gpu_nodes.items()):
        node = state.nodes.get(name)
        if node is not None:
            silent.add_metric([name], name in state.silent_nodes)
            missing.add_metric([name], _misses_shares(node, gpu_node))
    yield from (silent, missing)


def _misses_shares(node: NodeRecord, gpu_node: GPUNodeRecord) -> bool:
    """Whether the kubelet offers no shares, though a GPU is healthy. It takes them back when the device plugin is gone."""
    if node.allocatable is None or node.allocatable.get(GPU_PERCENT, 0):
        return False
    return any(gpu.healthy and gpu.allocatable_percent for gpu in gpu_node.gpus)
