"""Splits nodes and gangs into parts that do not matter to one another, so that each is a small problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that share gangs, directly or through others, with all of these gangs."""

    nodes: Mapping[str, NodeCapacity]
    """By name."""

    gangs: tuple[PlacedGang, ...]
    """In the order of jobs."""


def independent_parts(nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]) -> tuple[Part, ...]:
    """Return the parts that have gangs, in the order of their first gangs. Raises ValueError on a placement that cannot be."""
    by_name = {node.node: node for node in nodes}
    ordered = sorted(gangs, key=lambda gang: (gang.position, gang.key))
    _check(by_name, ordered)
    leader = {name: name for name in by_name}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for gang in ordered:
        first = find(gang.workers[0].node)
        for worker in gang.workers[1:]:
            leader[find(worker.node)] = first
    gangs_of: dict[str, list[PlacedGang]] = {}
    for gang in ordered:
        gangs_of.setdefault(find(gang.workers[0].node), []).append(gang)
    return tuple(
        Part(
            {worker.node: by_name[worker.node] for gang in members for worker in gang.workers},
            tuple(members),
        )
        for members in gangs_of.values()
    )


def _check(nodes: Mapping[str, NodeCapacity], gangs: Sequence[PlacedGang]) -> None:
    if len({gang.key for gang in gangs}) != len(gangs):
        raise ValueError("a gang is given twice: write each key once")
    placed: dict[str, int] = {}
    for gang in gangs:
        for worker in gang.workers:
            if worker.node not in nodes:
                raise ValueError(
                    f"gang {gang.key} is on node {worker.node}, which is not among the nodes given"
                )
            placed[worker.node] = placed.get(worker.node, 0) + worker.gpu_percent
    for name, percent in placed.items():
        if percent > nodes[name].gpu_percent:
            raise ValueError(
                f"{percent} percent of GPUs are placed on node {name}, which has {nodes[name].gpu_percent}"
            )
