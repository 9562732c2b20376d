"""A node of one's own for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.node_agent.node import Node


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Make nodes; all that they started is ended with the test."""
    nodes: list[Node] = []

    def make(**config: Any) -> Node:
        root = tmp_path / f"node-{len(nodes)}"
        root.mkdir()
        nodes.append(Node(root, **config))
        return nodes[-1]

    yield make
    for node in nodes:
        node.end()
