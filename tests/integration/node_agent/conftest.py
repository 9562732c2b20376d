"""A node of one's own for each test."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.node_agent.cluster import Cluster
from tests.support.node_agent.node import Node, nodes_below
from tests.support.node_agent.pod_cgroup import PodCgroup


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Make nodes; all that they started is ended with the test."""
    with nodes_below(tmp_path) as make:
        yield make


@pytest.fixture
def cluster(control_plane: LoopbackControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
def make_published(make_node: Callable[..., Node], cluster: Cluster) -> Callable[..., Node]:
    """Make a node whose agent publishes, under a name of its own."""

    def make(kubeconfig: Path | None = None, **config: Any) -> Node:
        node = make_node(name=f"n-{uuid.uuid4().hex[:8]}", statusIntervalSeconds=2, **config)
        node.environment = {
            "KUBECONFIG": str(kubeconfig or cluster.plane.kubeconfig),
            "POD_NAMESPACE": "default",
        }
        return node

    return make


@pytest.fixture
def make_pod() -> Iterator[Callable[[], PodCgroup]]:
    """Make pods' cgroups; their processes end with the test."""
    pods: list[PodCgroup] = []

    def make() -> PodCgroup:
        pods.append(PodCgroup())
        return pods[-1]

    yield make
    for pod in pods:
        pod.remove()
