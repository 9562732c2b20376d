"""The nodes of a simulated cluster, from a short description such as ``8x8``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from laneway.api import quota
from laneway.scheduling import GPU, Node
from laneway.scheduling.model.topology_levels import DEFAULT_LEVELS, Domain, domains_of

DEFAULT_MODEL = "GPU"
DEFAULT_MEMORY_BYTES = 80 * 2**30
RESERVE_BYTES = 300 * 2**20
"""Kept free on each GPU: the default of a node's configuration."""


def make_nodes(text: str, levels: Sequence[str] = DEFAULT_LEVELS) -> tuple[Node, ...]:
    """Return the nodes that a text such as ``8x8`` or ``4x8:A100:80,2x4:T4:16`` describes.

    Each part is ``<nodes>x<GPUs per node>[:<model>][:<memory in GiB>][/rack=<nodes per rack>]``.

    Args:
        text: describes the nodes.
        levels: labels of nodes, from the widest to the narrowest; the last one names the rack.

    Raises:
        ValueError: the text is not of that form.
    """
    nodes: list[Node] = []
    racks = 0
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)x(\d+)(?::([^:,/]+))?(?::(\d+))?(?:/rack=(\d+))?", part.strip())
        if match is None or any(number is not None and int(number) < 1 for number in match.group(1, 2, 4, 5)):
            raise ValueError(
                f"{part!r} does not describe nodes: write <nodes>x<GPUs per node>, such as 8x8; "
                "with model and memory in GiB, such as 4x8:A100:80,2x4:T4:16; "
                "with nodes per rack, such as 8x8/rack=4; or the name of a file"
            )
        count, nodes_per_rack = int(match[1]), int(match[5] or 0)
        memory_bytes = int(match[4]) * 2**30 if match[4] else DEFAULT_MEMORY_BYTES
        for index in range(count):
            name = f"n{len(nodes):04d}"
            gpus = make_gpus(name, int(match[2]), match[3] or DEFAULT_MODEL, memory_bytes)
            domains = in_rack(racks + index // nodes_per_rack, levels) if nodes_per_rack else ()
            nodes.append(Node(name, gpus, domains=domains))
        racks += -(-count // nodes_per_rack) if nodes_per_rack else 0
    return tuple(nodes)


def in_rack(number: int, levels: Sequence[str]) -> tuple[Domain, ...]:
    """Return the domains of a node in a rack of this number, whose label is the last level."""
    return domains_of({levels[-1]: f"r{number:03d}"}, levels) if levels else ()


def make_gpus(
    node: str, count: int, model: str = DEFAULT_MODEL, memory_bytes: int = DEFAULT_MEMORY_BYTES
) -> tuple[GPU, ...]:
    """Return the identical GPUs of a node."""
    allocatable_bytes = quota.allocatable_bytes(memory_bytes, RESERVE_BYTES)
    return tuple(
        GPU(f"{node}-{index}", node, index, model, memory_bytes, allocatable_bytes) for index in range(count)
    )
