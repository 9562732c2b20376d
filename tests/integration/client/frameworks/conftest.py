"""One node for all the libraries: its GPU is one lane, so that two jobs on it take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.client.jobs import Job
from tests.support.node_agent.node import Container, Node
from tests.support.torch_runtime import frameworks_runtime

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with one GPU of 100 MiB, where no turn is revoked for its duration."""
    node = Node(
        tmp_path_factory.mktemp("node"), gpus=1, lanes={"maxPerGpu": 1}, turns={"timeoutSeconds": 3600}
    )
    node.profile = {"gpus": [{"model": "Simulated", "memory": "100Mi", "count": 1}]}
    yield node.start()
    node.end()


@pytest.fixture
def container(node: Node) -> Iterator[Callable[..., Container]]:
    """Makes containers on it; removes them after the test."""
    made: list[Container] = []

    def make(pod: str, percent: int = 18) -> Container:
        made.append(node.container(pod, percent))
        return made[-1]

    yield make
    for each in made:
        each.remove()


@pytest.fixture
def run(run: Callable[..., Job]) -> Callable[..., Job]:
    """Starts a job where the libraries are installed."""
    return partial(run, runtime=frameworks_runtime())
