"""What the chart's roles let users do who view or edit a namespace."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from hack.cluster.control_plane import LoopbackControlPlane
from tests.integration.charts.conftest import NAMESPACE

May = Callable[[str, str], bool]


@pytest.fixture(scope="package")
def may(installed: LoopbackControlPlane) -> May:
    """Whether a user with a role in the default namespace has a right there, by the API server's answer."""

    def kubectl(*arguments: str) -> str:
        command = [str(installed.kubectl), "--kubeconfig", str(installed.kubeconfig), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip() + done.stderr.strip()

    for role in ("view", "edit"):
        cluster_role = f"--clusterrole={NAMESPACE}:laneway-{role}"
        made = kubectl("create", "rolebinding", role, cluster_role, f"--user={role}", "-n", "default")
        assert "created" in made, made

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
