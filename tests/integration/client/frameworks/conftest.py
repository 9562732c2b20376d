"""One node for all the libraries: its GPU is one lane, so that two jobs on it take turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.integration.client.jobs import Job
from tests.integration.node_agent.node import Container, Node
from tests.torch_runtime import frameworks_runtime

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """With one GPU of 100 MiB, where nobody loses a turn for keeping it."""
    node = Node(
        tmp_path_factory.mktemp("node"), gpus=1, lanes={"maxPerGpu": 1}, turns={"timeoutSeconds": 3600}
    )
    node.profile = {"gpus": [{"model": "Simulated", "memory": "100Mi", "count": 1}]}
    yield node.start()
    node.end()


@pytest.fixture
def container(node: Node) -> Iterator[Callable[..., Container]]:
    """Makes containers on it; they go with the test."""
    made: list[Container] = []

    def make(pod: str, percent: int = 18) -> Container:
        made.append(node.container(pod, percent))
        return made[-1]

    yield make
    for each in made:
        each.remove()


@pytest.fixture
def run(run: Callable[..., Job]) -> Callable[..., Job]:
    """Starts a job where the libraries are."""
    return partial(run, runtime=frameworks_runtime())
