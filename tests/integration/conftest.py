"""A real control plane for the tests of this folder: etcd, kube-apiserver and kube-controller-manager on loopback."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.cluster.control_plane import LoopbackControlPlane

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def control_plane() -> Iterator[LoopbackControlPlane]:
    """A control plane with Laneway's CRDs established; one for the whole session, so tests use namespaces of their own."""
    with LoopbackControlPlane(controllers=True) as plane:
        kubectl = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig)]
        subprocess.run([*kubectl, "apply", "--server-side", "-f", str(REPOSITORY / "crds")], check=True)
        subprocess.run(
            [*kubectl, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"], check=True
        )
        yield plane
