"""A node with a real agent, and jobs with real PyTorch on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.client.rendezvous_ports import rendezvous_ports
from tests.support.client.jobs import Job
from tests.support.node_agent.node import Node


@pytest.fixture(scope="session")
def rendezvous_port() -> Callable[[], int]:
    """Returns ports on which the ranks of a gang can meet, a new one each time."""
    ports = rendezvous_ports()
    return lambda: next(ports)


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Makes nodes with running agents; ends them after the test."""
    nodes: list[Node] = []

    def make(**config: Any) -> Node:
        root = tmp_path / f"node-{len(nodes)}"
        root.mkdir()
        nodes.append(Node(root, **config).start())
        return nodes[-1]

    yield make
    for node in nodes:
        node.end()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts jobs, each in its own working folder unless `work` names one; ends them after the test."""
    jobs: list[Job] = []

    def start(*command: str, work: Path | None = None, **options: Any) -> Job:
        jobs.append(Job(list(command), work or tmp_path / f"work-{len(jobs)}", **options))
        return jobs[-1]

    yield start
    for job in jobs:
        job.kill()
