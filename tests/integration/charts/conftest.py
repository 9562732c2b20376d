"""The chart's objects, rendered by a real helm and put on a real API server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.chart.generated import CHART
from hack.cluster.control_plane import LoopbackControlPlane
from hack.verify.chart import rendered
from tests.support.control_planes import plane_with_crds
from tests.support.rights import until_bound

NAMESPACE = "laneway-system"
NODES = ("gpu-1", "gpu-2")


@dataclass(frozen=True)
class Account:
    """A service account's own way to the API server: a token, and nothing of an administrator's."""

    plane: LoopbackControlPlane
    token: str

    def kubectl(
        self, *arguments: str, manifest: dict[str, Any] | None = None
    ) -> subprocess.CompletedProcess[str]:
        server = [
            "--server",
            self.plane.url,
            "--certificate-authority",
            str(self.plane.authority),
            "--token",
            self.token,
        ]
        return subprocess.run(
            [str(self.plane.kubectl), "--kubeconfig=/dev/null", *server, *arguments],
            input=json.dumps(manifest) if manifest else None,
            capture_output=True,
            text=True,
            check=False,
        )

    def may(self, right: str, namespace: str = "default") -> bool:
        """Whether RBAC gives it a right, as for `kubectl auth can-i`, by the API server's answer."""
        answer = self.kubectl("auth", "can-i", *right.split(), "--namespace", namespace).stdout.strip()
        assert answer in ("yes", "no"), answer
        return answer == "yes"


@pytest.fixture(scope="package")
def installed() -> Iterator[LoopbackControlPlane]:
    """A control plane with two nodes, and with every object of the chart as `helm install` makes them.

    It is the package's own: the chart's rights and policies hold for the whole cluster, and other tests put up theirs.
    """
    with plane_with_crds() as plane:
        _install(plane)
        yield plane


def _install(plane: LoopbackControlPlane) -> None:
    def kubectl(*arguments: str, text: str = "") -> None:
        command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in NODES]
    # Authors' own pods may have shares; test_pod_admission.py puts the policy of shared GPUs in force in its own part.
    objects = rendered(CHART / "ci" / "simulated-values.yaml", "--set", "crds.enabled=false,sharing=off")
    kubectl("create", "namespace", NAMESPACE)
    kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    kubectl("apply", "--server-side", "--validate=strict", "-f", "-", text=objects)
    until_bound(plane, (each for each in yaml.safe_load_all(objects) if each))


@pytest.fixture(scope="package")
def account(installed: LoopbackControlPlane) -> Callable[..., Account]:
    """Returns a function: the account of a name, with a token as the kubelet asks for it, bound to a node where one is named."""

    @cache
    def make(name: str, node: str = "") -> Account:
        bound = ["--bound-object-kind=Node", f"--bound-object-name={node}"] if node else []
        command = [
            str(installed.kubectl),
            "--kubeconfig",
            str(installed.kubeconfig),
            "-n",
            NAMESPACE,
            "create",
            "token",
            name,
            *bound,
        ]
        token = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        return Account(installed, token)

    return make


@pytest.fixture
def values_file(tmp_path: Path) -> Callable[[str], Path]:
    """Returns a function that writes values into a file."""

    def write(text: str) -> Path:
        path = tmp_path / "values.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
