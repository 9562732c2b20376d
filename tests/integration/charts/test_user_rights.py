"""What the chart's roles let users do who view or edit a namespace."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.charts.conftest import NAMESPACE
from tests.support.rights import until_allowed

May = Callable[[str, str], bool]

GIVES = {
    "view": "list trainingjobs.laneway.dev",
    "edit": "create trainingjobs.laneway.dev",
    "gpunodes-view": "list gpunodes.laneway.dev",
}
"""A right that each role gives."""


def _kubectl(plane: LoopbackControlPlane, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="package")
def may(installed: LoopbackControlPlane) -> May:
    """Whether a user with a role in the default namespace has a right there, by the API server's answer."""

    def kubectl(*arguments: str) -> str:
        done = _kubectl(installed, *arguments)
        return done.stdout.strip() + done.stderr.strip()

    for role in ("view", "edit"):
        cluster_role = f"--clusterrole={NAMESPACE}:laneway-{role}"
        made = kubectl("create", "rolebinding", role, cluster_role, f"--user={role}", "-n", "default")
        assert "created" in made, made
        until_allowed(installed, role, GIVES[role])

    def asked(role: str, right: str) -> bool:
        answer = kubectl("auth", "can-i", *right.split(), "--namespace", "default", "--as", role)
        assert answer in ("yes", "no"), answer
        return answer == "yes"

    return asked


@pytest.mark.parametrize(
    ("role", "right", "allowed"),
    [
        ("view", "list trainingjobs.laneway.dev", True),
        ("view", "list trainingprofiles.laneway.dev", True),
        ("view", "create trainingjobs.laneway.dev", False),
        ("view", "delete trainingprofiles.laneway.dev", False),
        ("edit", "create trainingjobs.laneway.dev", True),
        ("edit", "patch trainingjobs.laneway.dev --subresource=status", False),
        ("edit", "delete trainingprofiles.laneway.dev", True),
        ("edit", "patch trainingprofiles.laneway.dev", False),
    ],
)
def test_a_user_may(may: May, role: str, right: str, allowed: bool) -> None:
    assert may(role, right) is allowed


@pytest.mark.parametrize(
    ("role", "allowed"),
    [("view", False), ("edit", False), ("gpunodes-view", True)],
)
def test_the_sessions_of_all_tenants_are_for_those_who_look_after_the_nodes(
    installed: LoopbackControlPlane, role: str, allowed: bool
) -> None:
    """A GPUNode has their names and messages, and a role that holds in all namespaces of tenants does not show it."""
    user = f"everywhere-{role}"
    cluster_role = f"--clusterrole={NAMESPACE}:laneway-{role}"
    made = _kubectl(installed, "create", "clusterrolebinding", user, cluster_role, f"--user={user}")
    assert made.returncode == 0, made.stderr
    until_allowed(installed, user, GIVES[role])
    read = _kubectl(installed, "get", "gpunodes", "--as", user)
    assert (read.returncode == 0) is allowed, read.stderr
    if not allowed:
        assert "cannot list resource" in read.stderr
    written = _kubectl(installed, "delete", "gpunode", "gpu-1", "--as", user)
    assert "cannot delete resource" in written.stderr
