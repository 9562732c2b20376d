"""Control planes for tests: etcd, kube-apiserver and kube-controller-manager on loopback, with Laneway's CRDs established."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hack.cluster.control_plane import LoopbackControlPlane

REPOSITORY = Path(__file__).parents[2]

NODE_GRACE_SECONDS = 120
"""A played node is lost for kube-controller-manager when its test has not been scheduled for this long."""


@contextmanager
def plane_with_crds() -> Iterator[LoopbackControlPlane]:
    """A control plane that ends with the context."""
    with LoopbackControlPlane(controllers=True, node_grace_seconds=NODE_GRACE_SECONDS) as plane:
        kubectl = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig)]
        subprocess.run([*kubectl, "apply", "--server-side", "-f", str(REPOSITORY / "crds")], check=True)
        plane.wait_for_crds()
        yield plane


@pytest.fixture(scope="session")
def control_plane() -> Iterator[LoopbackControlPlane]:
    """One control plane per process of the test run; tests use namespaces of their own."""
    with plane_with_crds() as plane:
        yield plane
