"""Clusters of the tests' own beside any that runs, and an image of busybox and kubectl for their pods."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack.cluster import embedded
from hack.cluster.build import built
from hack.cluster.cache import exclusive
from hack.cluster.embedded import RunningCluster
from hack.cluster.images import write_static_image
from hack.cluster.layout import state_root
from hack.cluster.teardown import bring_down

BUSYBOX = "localhost/laneway/test-busybox:1"
KUBECTL = "localhost/laneway/test-kubectl:1"
_COMMANDS = ("sh", "wget", "httpd", "sleep", "cat", "echo", "mkdir", "nslookup", "touch", "nc")


@pytest.fixture(scope="session")
def root() -> None:
    if os.geteuid() != 0:
        pytest.skip("the embedded cluster makes namespaces and mounts, for which it needs root")


@pytest.fixture(scope="session")
def archives(root: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """OCI archives of the images that pods of these tests run."""
    folder = tmp_path_factory.mktemp("archives")
    busybox = shutil.which("busybox")
    assert busybox is not None, "busybox is missing: run 'make system-packages'"
    links = tuple(f"/bin/{command}" for command in _COMMANDS)
    write_static_image(folder / "busybox.tar", BUSYBOX, Path(busybox), links)
    write_static_image(folder / "kubectl.tar", KUBECTL, built("kubectl"))
    return folder / "busybox.tar", folder / "kubectl.tar"


@contextmanager
def own_cluster(name: str, nodes: int, archives: tuple[Path, ...]) -> Iterator[RunningCluster]:
    """A new cluster of this name, gone afterwards. A second test run on this machine waits for its turn."""
    with exclusive(state_root() / ".locks" / f"tests-{name}.lock"):
        bring_down(name)
        try:
            embedded.bring_up(name, nodes)
            running = embedded.open_cluster(name)
            for archive in archives:
                running.load_image(archive)
            yield running
        finally:
            bring_down(name)


@pytest.fixture(scope="module")
def two_nodes(archives: tuple[Path, ...]) -> Iterator[RunningCluster]:
    with own_cluster("it-nodes", 2, archives) as running:
        yield running


@pytest.fixture
def one_node(archives: tuple[Path, ...]) -> Iterator[RunningCluster]:
    with own_cluster("it-teardown", 1, archives) as running:
        yield running
