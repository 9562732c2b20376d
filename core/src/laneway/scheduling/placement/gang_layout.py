"""Over which nodes a gang is laid, given how many of its workers each node could take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Layout = list[tuple[int, int]]
"""Nodes by number, each with how many workers it takes."""


def on_fewest_nodes(workers: int, nodes_by_slots: Mapping[int, Sequence[int]]) -> Layout | None:
    """Lay a gang on few nodes: the tightest node that takes the rest, else the roomiest, and again.

    Args:
        workers: the size of the gang.
        nodes_by_slots: by number of workers that a node can take: the nodes, in the order in which they are preferred.

    Returns:
        Nodes in the order in which they were chosen; None if the gang does not fit.
    """
    sizes = sorted(slots for slots, nodes in nodes_by_slots.items() if slots and nodes)
    if sum(size * len(nodes_by_slots[size]) for size in sizes) < workers:
        return None
    used = dict.fromkeys(sizes, 0)
    layout: Layout = []
    while workers:
        left = [size for size in sizes if used[size] < len(nodes_by_slots[size])]
        size = next((size for size in left if size >= workers), left[-1])
        layout.append((nodes_by_slots[size][used[size]], min(size, workers)))
        used[size] += 1
        workers -= layout[-1][1]
    return layout


def on_most_nodes(workers: int, nodes_by_slots: Mapping[int, Sequence[int]]) -> Layout | None:
    """Lay a gang on as many nodes as it has workers, the roomiest first; where they are too few, evenly.

    Takes and returns what :func:`on_fewest_nodes` does.
    """
    sizes = sorted((slots for slots in nodes_by_slots if slots), reverse=True)
    slots = {node: size for size in sizes for node in nodes_by_slots[size]}
    if sum(slots.values()) < workers:
        return None
    taken = dict.fromkeys(list(slots)[:workers], 0)
    while workers:
        for node in taken:
            if workers and taken[node] < slots[node]:
                taken[node] += 1
                workers -= 1
    return list(taken.items())
