"""Splits nodes and gangs into independent parts, so that each is a small problem. Parts hold numbers instead of names, so
equal parts, and the same part in a later decision, share one cached division.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import TypeVar

from laneway.scheduling.allocation.policy import NodeCapacity, PlacedGang, PlacedWorker
from laneway.scheduling.model.plan import WorkerAllotment

_FEW_WORKERS = 16
_MOST_SMALL = 8192
_MOST_LARGE = 16
"""Divisions that are remembered of small and of large parts. A large cluster has thousands of small parts, which seldom change. Gangs on
several nodes make one part of a thousand workers, which often changes, and takes a third of a MiB."""

How = TypeVar("How", bound=Hashable)
Divided = tuple[tuple[WorkerAllotment, ...], ...]
"""What the workers of each gang of a part get."""


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that share gangs, directly or through others, with all of these gangs."""

    nodes: Mapping[str, NodeCapacity]
    """Numbered in the order of their names."""

    gangs: tuple[PlacedGang, ...]
    """In the order of jobs, without their keys."""

    def __hash__(self) -> int:
        return hash((tuple(self.nodes.values()), self.gangs))


def remembered(divide: Callable[[Part, How], Divided]) -> Callable[[Part, How], Divided]:
    """Return a function that divides a part, and remembers its last results."""
    small, large = lru_cache(_MOST_SMALL)(divide), lru_cache(_MOST_LARGE)(divide)

    @wraps(divide)
    def divided(part: Part, how: How) -> Divided:
        is_small = sum(len(gang.workers) for gang in part.gangs) <= _FEW_WORKERS
        return (small if is_small else large)(part, how)

    return divided


def independent_parts(
    nodes: Sequence[NodeCapacity], gangs: Sequence[PlacedGang]
) -> Sequence[tuple[tuple[str, ...], Part]]:
    """Return the parts that have gangs, with the keys of the gangs, in the order of the parts' first gangs. Raises ValueError
    if a placement is impossible.
    """
    by_name = {node.node: node for node in nodes}
    ordered = sorted(gangs, key=lambda gang: (gang.position, gang.key))
    _check(by_name, ordered)
    return [
        (tuple(gang.key for gang in members), _without_names(by_name, members))
        for members in _connected(by_name, ordered)
    ]


def _connected(
    nodes: Mapping[str, NodeCapacity], gangs: Sequence[PlacedGang]
) -> Sequence[Sequence[PlacedGang]]:
    """Return the gangs that share nodes, together."""
    leader = {name: name for name in nodes}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for gang in gangs:
        first = find(gang.workers[0].node)
        for worker in gang.workers[1:]:
            leader[find(worker.node)] = first
    members_of: dict[str, list[PlacedGang]] = {}
    for gang in gangs:
        members_of.setdefault(find(gang.workers[0].node), []).append(gang)
    return list(members_of.values())


def _without_names(nodes: Mapping[str, NodeCapacity], gangs: Sequence[PlacedGang]) -> Part:
    names = sorted({worker.node for gang in gangs for worker in gang.workers})
    number_of = {name: str(number) for number, name in enumerate(names)}
    return Part(
        {number_of[name]: replace(nodes[name], node=number_of[name]) for name in names},
        tuple(
            PlacedGang(
                "",
                tuple(
                    PlacedWorker(worker.worker, number_of[worker.node], worker.gpu_percent)
                    for worker in gang.workers
                ),
                gang.sensitivity,
            )
            for gang in gangs
        ),
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
