"""The cluster that a trace runs on: described in a few characters, or by a published list of nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from laneway.api import quota
from laneway.lanes import LaneRules
from laneway.scheduling import GPU, Node

DEFAULT_MODEL = "GPU"
DEFAULT_MEMORY_BYTES = 80 * 2**30
RESERVE_BYTES = 300 * 2**20
"""Kept free on each GPU, as a node's configuration has it by default."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """How the GPUs of a simulated cluster are shared; the same for all of them."""

    allocatable_percent: int = 100
    """Shares on offer of each GPU: 100 times the overcommit factor."""

    lane_rules: LaneRules = field(default_factory=LaneRules)
    """How a GPU's memory is cut into lanes."""

    def __post_init__(self) -> None:
        if self.allocatable_percent < 1:
            raise ValueError(f"allocatable_percent is {self.allocatable_percent}: write 1 or more")


def make_nodes(text: str, *, allocatable_percent: int = 100, max_lanes: int = 0) -> tuple[Node, ...]:
    """Return the nodes that a text such as ``8x8``, ``4x8:A100:80,2x4:T4:16`` or ``nodes.csv`` describes.

    Each part is ``<nodes>x<GPUs of each>``, with the GPUs' model and memory in GiB where that matters, and ``/rack=<nodes>``
    where so many nodes are a rack. A text that ends in ``.csv`` names a file that ``read_nodes`` reads.

    Args:
        text: the description.
        allocatable_percent: shares on offer of each GPU: 100 times the overcommit factor.
        max_lanes: most lanes of one GPU; 0: as many as memory holds.

    Raises:
        ValueError: the text is not of that form, or the file cannot be read.
    """
    sharing = Sharing(allocatable_percent, LaneRules(max_lanes=max_lanes))
    if text.strip().endswith(".csv"):
        from laneway.simulator.cluster_files import read_nodes

        return read_nodes(Path(text.strip()), sharing)
    nodes: list[Node] = []
    racks = 0
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)x(\d+)(?::([^:,/]+))?(?::(\d+))?(?:/rack=(\d+))?", part.strip())
        if match is None or any(number is not None and int(number) < 1 for number in match.group(1, 2, 4, 5)):
            raise ValueError(
                f"{part!r} does not describe nodes: write <nodes>x<GPUs of each>, such as 8x8, "
                "with model and memory in GiB where they matter, such as 4x8:A100:80,2x4:T4:16, "
                "with nodes of a rack, such as 8x8/rack=4, or the name of a .csv file"
            )
        count, of_a_rack = int(match[1]), int(match[5] or 0)
        memory_bytes = int(match[4]) * 2**30 if match[4] else DEFAULT_MEMORY_BYTES
        for index in range(count):
            rack = f"r{racks + index // of_a_rack:03d}" if of_a_rack else ""
            name = f"n{len(nodes):04d}"
            gpus = make_gpus(name, int(match[2]), match[3] or DEFAULT_MODEL, memory_bytes, sharing)
            nodes.append(Node(name, gpus, rack=rack))
        racks += -(-count // of_a_rack) if of_a_rack else 0
    return tuple(nodes)


def make_gpus(node: str, count: int, model: str, memory_bytes: int, sharing: Sharing) -> tuple[GPU, ...]:
    """Return the GPUs of a node, all alike."""
    return tuple(
        GPU(
            f"{node}-{index}",
            node,
            index,
            model,
            memory_bytes,
            quota.allocatable_bytes(memory_bytes, RESERVE_BYTES),
            allocatable_percent=sharing.allocatable_percent,
            lane_rules=sharing.lane_rules,
        )
        for index in range(count)
    )
