"""What nodes have for the requests of workers' pods beside GPUs, as kube-scheduler counts it."""

from __future__ import annotations

from collections.abc import Mapping

from laneway.operator.state.cluster_state import ClusterState


def available(state: ClusterState, node: str) -> Mapping[str, int] | None:
    """Return what a node has for workers: what it offers, less what other pods request; None where it does not say.

    Before the node has reported its other pods, nothing is taken off for them.
    """
    record, gpu_node = state.nodes.get(node), state.gpu_nodes.get(node)
    if record is None or record.allocatable is None:
        return None
    others = None if gpu_node is None else gpu_node.other_pods
    return {name: amount - (others or {}).get(name, 0) for name, amount in record.allocatable.items()}
