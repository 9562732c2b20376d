"""The cluster that a trace runs on."""

from __future__ import annotations

import re

from laneway.api import quota
from laneway.scheduling import GPU, Node

DEFAULT_MODEL = "GPU"
DEFAULT_MEMORY_BYTES = 80 * 2**30
RESERVE_BYTES = 300 * 2**20
"""Kept free on each GPU, as a node's configuration has it by default."""


def make_nodes(text: str) -> tuple[Node, ...]:
    """Return the nodes that a text such as ``8x8`` or ``4x8:A100:80,2x4:T4:16`` describes.

    Each part is ``<nodes>x<GPUs of each>``, with the GPUs' model and memory in GiB where that matters.

    Raises:
        ValueError: the text is not of that form.
    """
    nodes: list[Node] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)x(\d+)(?::([^:,]+))?(?::(\d+))?", part.strip())
        if match is None or int(match[1]) < 1 or int(match[2]) < 1:
            raise ValueError(
                f"{part!r} does not describe nodes: write <nodes>x<GPUs of each>, such as 8x8, "
                "or with model and memory in GiB, such as 4x8:A100:80,2x4:T4:16"
            )
        memory_bytes = int(match[4]) * 2**30 if match[4] else DEFAULT_MEMORY_BYTES
        for _ in range(int(match[1])):
            nodes.append(_node(f"n{len(nodes):04d}", int(match[2]), match[3] or DEFAULT_MODEL, memory_bytes))
    return tuple(nodes)


def _node(name: str, count: int, model: str, memory_bytes: int) -> Node:
    return Node(
        name,
        tuple(
            GPU(
                f"{name}-{index}",
                name,
                index,
                model,
                memory_bytes,
                quota.allocatable_bytes(memory_bytes, RESERVE_BYTES),
            )
            for index in range(count)
        ),
    )
