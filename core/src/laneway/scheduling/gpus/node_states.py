"""Nodes by what is free of their GPUs: a placement policy need look at only one node of each state."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

State = tuple[int, ...]
"""The free percent of each usable GPU of one class on a node, rising."""


class NodeStates:
    """The nodes that have GPUs of one class, by state."""

    def __init__(self, free: Iterable[tuple[int, int]]) -> None:
        """Enter GPUs, each given by the number of its node and its free percent."""
        percents: dict[int, list[int]] = {}
        for node, percent in free:
            percents.setdefault(node, []).append(percent)
        self.of: dict[int, State] = {}
        self.nodes: dict[State, list[int]] = {}
        """In order of numbers; no state without a node."""

        for node in sorted(percents):
            self._enter(node, tuple(sorted(percents[node])))

    def move(self, node: int, before: int, after: int) -> None:
        """Note that one of a node's GPUs that had ``before`` percent free has ``after``."""
        state = self.of[node]
        percents = list(state)
        del percents[bisect_left(percents, before)]
        insort(percents, after)
        nodes = self.nodes[state]
        del nodes[bisect_left(nodes, node)]
        if not nodes:
            del self.nodes[state]
        self._enter(node, tuple(percents))

    def _enter(self, node: int, state: State) -> None:
        self.of[node] = state
        insort(self.nodes.setdefault(state, []), node)
