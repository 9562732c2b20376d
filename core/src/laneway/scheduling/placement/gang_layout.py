"""Lays a gang over nodes, given how many of its workers each node could take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import merge

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
    sizes = _sizes(nodes_by_slots)
    if _total(sizes, nodes_by_slots) < workers:
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
    sizes = _sizes(nodes_by_slots)
    if _total(sizes, nodes_by_slots) < workers:
        return None
    return evenly(workers, [(node, size) for size in reversed(sizes) for node in nodes_by_slots[size]])


def on_fragments(workers: int, nodes_by_slots: Mapping[int, Sequence[int]]) -> Layout | None:
    """Lay a gang on the nodes that can take the fewest workers, so that roomy nodes stay roomy.

    Takes and returns what :func:`on_fewest_nodes` does.
    """
    sizes = _sizes(nodes_by_slots)
    if _total(sizes, nodes_by_slots) < workers:
        return None
    return in_turn(workers, ((node, size) for size in sizes for node in nodes_by_slots[size]))


def on_first_nodes(workers: int, nodes_by_slots: Mapping[int, Sequence[int]]) -> Layout | None:
    """Lay a gang on the nodes with the lowest numbers.

    Takes and returns what :func:`on_fewest_nodes` does.
    """
    sizes = _sizes(nodes_by_slots)
    if _total(sizes, nodes_by_slots) < workers:
        return None
    by_size = [[(node, size) for node in sorted(nodes_by_slots[size])] for size in sizes]
    return in_turn(workers, merge(*by_size))


def in_turn(workers: int, slots: Iterable[tuple[int, int]]) -> Layout:
    """Fill nodes one after the other; ``slots`` are nodes with how many workers each can take, enough in sum."""
    layout: Layout = []
    for node, size in slots:
        layout.append((node, min(size, workers)))
        workers -= layout[-1][1]
        if not workers:
            break
    return layout


def evenly(workers: int, slots: Sequence[tuple[int, int]]) -> Layout:
    """Deal workers one by one to the first nodes, a node each if there are enough; takes what :func:`in_turn` does."""
    dealt = list(slots[:workers])
    taken = [0] * len(dealt)
    while workers:
        for place, (_, size) in enumerate(dealt):
            if workers and taken[place] < size:
                taken[place] += 1
                workers -= 1
    return [(node, count) for (node, _), count in zip(dealt, taken, strict=True)]


def _sizes(nodes_by_slots: Mapping[int, Sequence[int]]) -> list[int]:
    return sorted(slots for slots, nodes in nodes_by_slots.items() if slots and nodes)


def _total(sizes: Sequence[int], nodes_by_slots: Mapping[int, Sequence[int]]) -> int:
    return sum(size * len(nodes_by_slots[size]) for size in sizes)
