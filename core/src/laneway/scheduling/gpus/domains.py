"""The topology domains of a cluster: which nodes share a rack, a zone, or another level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.scheduling.model.snapshot import Node

UNKNOWN = -1
"""Stands for the domain of a node without a label at a level. Such nodes are not known to be close to one another."""

NodesBySlots = Mapping[int, Sequence[int]]
"""By number of workers that a node can take, the nodes."""


class Domains:
    """The nodes' domains by level, from the widest to the narrowest. Levels that tell no nodes apart are left out."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        """Number the domains of nodes, which are given in the order of their numbers."""
        names = dict.fromkeys(domain.level for node in nodes for domain in node.domains)
        of_nodes = [dict(node.domains) for node in nodes] if names else []
        self.levels: tuple[str, ...] = tuple(
            level for level in names if len({each.get(level, "") for each in of_nodes}) > 1
        )
        """Labels; empty where no node is known to be closer to one than to another."""

        self._numbers = [self._numbered(of_nodes, depth) for depth in range(len(self.levels))]

    def _numbered(self, of_nodes: Sequence[Mapping[str, str]], depth: int) -> tuple[int, ...]:
        """Return, by node, the number of its domain at a level."""
        paths = [tuple(each.get(level, "") for level in self.levels[: depth + 1]) for each in of_nodes]
        numbers = {path: number for number, path in enumerate(sorted({path for path in paths if path[-1]}))}
        return tuple(numbers.get(path, UNKNOWN) for path in paths)

    def split(self, nodes_by_slots: NodesBySlots, depth: int) -> dict[int, dict[int, list[int]]]:
        """Return nodes by their domain at a level, each in the order in which they were given."""
        numbers = self._numbers[depth]
        found: dict[int, dict[int, list[int]]] = {}
        for slots in sorted(nodes_by_slots):
            for node in nodes_by_slots[slots]:
                found.setdefault(numbers[node], {}).setdefault(slots, []).append(node)
        return found
