"""Which parts of nodes Prometheus sees missing."""

from __future__ import annotations

import pytest
from laneway.api.names import GPU_PERCENT
from laneway.operator.cycle.node_figures import node_gauges
from laneway.operator.state.cluster_state import ClusterState

from tests.unit.operator.builders import NOW, a_gpu_node, a_node, a_view
from tests.unit.operator.builders.gauges import samples_of

MISSING = "laneway_node_shares_missing"


def series(state: ClusterState) -> set[tuple[str, ...]]:
    return {(sample.name, sample.labels["node"]) for gauge in node_gauges(state) for sample in gauge.samples}


def test_a_silent_agent_is_named_and_its_series_ends_with_the_node() -> None:
    nodes = [a_node("n1"), a_node("n2")]
    state = a_view(gpu_nodes=[a_gpu_node("n1"), a_gpu_node("n2")], nodes=nodes, silent=["n2"])
    assert samples_of(node_gauges(state)) == {("laneway_node_agent_silent", "n2"): 1}
    state.note_node(nodes[1], None)
    assert samples_of(node_gauges(state)) == {}
    assert ("laneway_node_agent_silent", "n2") not in series(state), "its GPUNode may be there for a moment"
    assert ("laneway_node_agent_silent", "n1") in series(state)


@pytest.mark.parametrize(
    ("offered", "sick", "want"),
    [
        ({GPU_PERCENT: "100"}, {}, {}),
        ({GPU_PERCENT: "0"}, {}, {(MISSING, "n1"): 1}),
        ({"cpu": "8"}, {}, {(MISSING, "n1"): 1}),
        ({GPU_PERCENT: "0"}, {0: NOW}, {}),
        (None, {}, {}),
    ],
    ids=["shares", "none of them", "never any", "no GPU is healthy", "the Node does not say"],
)
def test_a_kubelet_without_shares(
    offered: dict[str, str] | None, sick: dict[int, float], want: dict[tuple[str, ...], float]
) -> None:
    state = a_view(gpu_nodes=[a_gpu_node("n1", gpus=1, sick=sick)], nodes=[a_node("n1", allocatable=offered)])
    assert samples_of(node_gauges(state)) == want
