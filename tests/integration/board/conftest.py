"""Chromium, boards as users start them, and a real API server with the objects that they show."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.board.cluster import Cluster
from tests.support.browser import browser, open_page, served

__all__ = ["browser", "open_page"]


@pytest.fixture(scope="session")
def cluster(control_plane: LoopbackControlPlane) -> Cluster:
    return Cluster(control_plane)


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = f"board-{uuid.uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    yield name
    cluster.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def own_board(control_plane: LoopbackControlPlane) -> Iterator[str]:
    """The address of an administrator's `laneway board`."""
    with laneway_board(control_plane.kubeconfig) as address:
        yield address


@contextmanager
def laneway_board(kubeconfig: Path, *arguments: str) -> Iterator[str]:
    """Run `laneway board`; give the address that it prints."""
    command = [sys.executable, "-m", "laneway.cli.main", "board", "--kubeconfig", kubeconfig, "--port", "0"]
    with served([*command, *arguments], r"http://\S+") as address:
        yield address
