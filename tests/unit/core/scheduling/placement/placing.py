"""Plans by one placement policy, on nodes that are wired and stand in racks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laneway.scheduling import Node, Plan
from laneway.scheduling.model.topology_levels import domains_of
from laneway.scheduling.placement.policy import PlacementPolicy

from tests.unit.core.scheduling.builders import JobBuilder, eager, planned


def placed(policy: PlacementPolicy, nodes: Sequence[Node], *jobs: JobBuilder) -> Plan:
    """The plan for these nodes and jobs, first come, first placed."""
    return planned(nodes, *jobs, by=replace(eager("fifo", strict=False), placement=policy))


LEVELS = ("topology.kubernetes.io/zone", "example.com/rack")


def in_rack(rack: str, node: Node, zone: str = "") -> Node:
    labels = {level: name for level, name in zip(LEVELS, (zone, rack), strict=True) if name}
    return replace(node, domains=domains_of(labels, LEVELS))


def wired(node: Node, *groups: Sequence[int]) -> Node:
    """A node whose GPUs are linked by NVLink inside each of these groups of indexes."""
    peers = {
        index: frozenset(node.gpus[other].uuid for other in group if other != index)
        for group in groups
        for index in group
    }
    return replace(
        node,
        gpus=tuple(replace(gpu, nvlink_peers=peers.get(gpu.index, frozenset())) for gpu in node.gpus),
    )


def on_numa(node: Node, *numa_nodes: int) -> Node:
    """A node whose GPUs are, in order of their indexes, on these NUMA nodes."""
    return replace(
        node,
        gpus=tuple(replace(gpu, numa_node=numa) for gpu, numa in zip(node.gpus, numa_nodes, strict=True)),
    )
