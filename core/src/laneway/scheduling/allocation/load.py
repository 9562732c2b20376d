"""The CPUs and memory of each node that are promised while options are tried."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.scheduling.allocation.options import Option, nodes_of
from laneway.scheduling.allocation.parts import Part

Promised = tuple[int, int]
"""CPU millis and memory bytes of one node."""


class Load:
    """CPUs and memory promised by node. It may exceed capacity, and reports where and by how much.

    Gangs are named by their number in the part.
    """

    def __init__(self, part: Part) -> None:
        self._nodes = part.nodes
        self._nodes_of = [nodes_of(gang) for gang in part.gangs]
        self._gangs_on: dict[str, list[int]] = {node: [] for node in part.nodes}
        for gang, nodes in enumerate(self._nodes_of):
            for node in nodes:
                self._gangs_on[node].append(gang)
        self._promised: dict[str, Promised] = dict.fromkeys(part.nodes, (0, 0))

    def take(self, gang: int, option: Option) -> None:
        """Promise a gang what an option needs."""
        self._promised.update(self._after(gang, None, option))

    def exchange(self, gang: int, held: Option, wanted: Option) -> None:
        """Replace what is promised to a gang for one option by what another needs."""
        self._promised.update(self._after(gang, held, wanted))

    def fits(self, gang: int, held: Option | None, wanted: Option) -> bool:
        """Whether an option fits in place of a gang's current one, or of none."""
        return not any(
            self._excess(node, promised) for node, promised in self._after(gang, held, wanted).items()
        )

    def is_overfull(self, node: str) -> bool:
        """Whether more is promised on a node than it has."""
        return self._excess(node, self._promised[node]) > 0

    def gangs_on(self, node: str) -> Sequence[int]:
        """Return the gangs that have a worker on a node, in the order of jobs."""
        return self._gangs_on[node]

    def nodes_of(self, gang: int) -> Sequence[str]:
        """Return the nodes on which a gang has workers."""
        return self._nodes_of[gang]

    def relief(self, gang: int, held: Option, wanted: Option) -> float:
        """Return by how much excess shrinks, in parts of capacity, when a gang has one option instead of the other."""
        return sum(
            self._excess(node, self._promised[node]) - self._excess(node, promised)
            for node, promised in self._after(gang, held, wanted).items()
        )

    def extra(self, gang: int, held: Option, wanted: Option) -> float:
        """Return what one option takes beyond the other, in parts of capacity."""
        return sum(
            _beyond(promised[0], self._promised[node][0], self._nodes[node].cpu_millis)
            + _beyond(promised[1], self._promised[node][1], self._nodes[node].memory_bytes)
            for node, promised in self._after(gang, held, wanted).items()
        )

    def _after(self, gang: int, held: Option | None, wanted: Option) -> dict[str, Promised]:
        after: dict[str, Promised] = {}
        for place, (node, need) in enumerate(zip(self._nodes_of[gang], wanted.needs, strict=True)):
            cpu, memory = self._promised[node]
            if held is not None:
                cpu -= held.needs[place].cpu_millis
                memory -= held.needs[place].memory_bytes
            after[node] = (cpu + need.cpu_millis, memory + need.memory_bytes)
        return after

    def _excess(self, name: str, promised: Promised) -> float:
        node = self._nodes[name]
        if promised[0] <= node.cpu_millis and promised[1] <= node.memory_bytes:
            return 0.0
        return _beyond(promised[0], node.cpu_millis, node.cpu_millis) + _beyond(
            promised[1], node.memory_bytes, node.memory_bytes
        )


def _beyond(amount: int, limit: int, capacity: int) -> float:
    """Return by how much an amount exceeds a limit, as a fraction of a capacity (of 1 if the capacity is 0)."""
    return max(0, amount - limit) / max(1, capacity)
