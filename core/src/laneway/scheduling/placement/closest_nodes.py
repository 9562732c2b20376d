"""Lays a gang on nodes that are close to one another: on one, else in one rack, else in one zone, else in few of them.

The levels are labels of nodes, as in Kueue's topology-aware scheduling; Gandiva calls the same affinity (OSDI'18, section 3). A level counts
from the narrowest to the widest; of several domains that can hold the gang, it takes the one that it fills best.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from laneway.scheduling.gpus.domains import UNKNOWN, Domains, NodesBySlots
from laneway.scheduling.placement.gang_layout import Layout, on_fewest_nodes


def on_closest_nodes(
    workers: int,
    nodes_by_slots: NodesBySlots,
    domains: Domains,
    most_nodes: float = math.inf,
) -> Layout | None:
    """Lay a gang on the closest nodes.

    Args:
        workers: the size of the gang.
        nodes_by_slots: by number of workers that a node can take: the nodes, in the order in which they are preferred.
        domains: the nodes' racks and zones.
        most_nodes: the most nodes that it may take.

    Returns:
        Nodes, those of one domain next to one another; None if the gang does not fit, or only on more nodes.
    """
    fewest = on_fewest_nodes(workers, nodes_by_slots)
    if fewest is None or len(fewest) > most_nodes:
        return None
    if len(fewest) == 1 or not domains.levels:
        return fewest
    for layout in _in_one_domain(workers, nodes_by_slots, domains):
        if len(layout) <= most_nodes:
            return layout
    layout = _over_few_domains(workers, nodes_by_slots, domains, 0)
    return layout if len(layout) <= most_nodes else fewest


def _in_one_domain(workers: int, nodes_by_slots: NodesBySlots, domains: Domains) -> Iterator[Layout]:
    """Yield layouts inside one domain, the narrowest level first, then the domain that has the least to spare."""
    for depth in reversed(range(len(domains.levels))):
        split = domains.split(nodes_by_slots, depth)
        roomy = sorted(
            (slots, number) for number, nodes in split.items() if (slots := _total(nodes)) >= workers
        )
        for _, number in roomy:
            if number != UNKNOWN:
                yield _over_few_domains(workers, split[number], domains, depth + 1)
                if depth + 1 < len(domains.levels):
                    yield on_fewest_nodes(workers, split[number]) or []


def _over_few_domains(workers: int, nodes_by_slots: NodesBySlots, domains: Domains, depth: int) -> Layout:
    """Lay a gang that fits over as few domains of a level as possible, and so on inside each; at last on few nodes."""
    if depth == len(domains.levels):
        return on_fewest_nodes(workers, nodes_by_slots) or []
    split = domains.split(nodes_by_slots, depth)
    by_slots: dict[int, list[int]] = {}
    for number in sorted(split):
        by_slots.setdefault(_total(split[number]), []).append(number)
    layout: Layout = []
    for number, wanted in on_fewest_nodes(workers, by_slots) or []:
        layout += _over_few_domains(wanted, split[number], domains, depth + 1)
    return layout


def _total(nodes_by_slots: Mapping[int, Sequence[int]]) -> int:
    return sum(slots * len(nodes) for slots, nodes in nodes_by_slots.items())
