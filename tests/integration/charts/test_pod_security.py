"""The operator's pods and the board's meet the Pod Security profile `restricted`; the node pods need `privileged`. The API server itself decides."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hack.chart.generated import CHART
from hack.cluster.control_plane import LoopbackControlPlane
from hack.verify.chart import rendered_objects, variants

Tried = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def namespaces(installed: LoopbackControlPlane) -> Iterator[dict[str, str]]:
    """A namespace for each profile."""
    made = {profile: f"security-{profile}" for profile in ("restricted", "privileged")}
    for profile, name in made.items():
        labels = {"pod-security.kubernetes.io/enforce": profile}
        kubectl(installed, "create", "-f", "-", manifest=object_of("Namespace", name, labels=labels))
        kubectl(installed, "wait", "--for=create", "serviceaccount/default", "-n", name, "--timeout=60s")
    yield made
    for name in made.values():
        kubectl(installed, "delete", "namespace", name, "--wait=false")


def object_of(kind: str, name: str, spec: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec or {}}


def kubectl(plane: LoopbackControlPlane, *arguments: str, manifest: dict[str, Any] | None = None) -> Tried:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments]
    text = json.dumps(manifest) if manifest else None
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def tried(plane: LoopbackControlPlane, values: Path, component: str, namespace: str) -> Tried:
    """The API server's answer to a pod of a component (the first group's), created in a namespace without its account and class."""
    found = [each for each in rendered_objects(values) if "template" in each.get("spec", {})]
    labels = {"app.kubernetes.io/component": component}.items()
    spec = next(
        each["spec"]["template"]["spec"] for each in found if labels <= each["metadata"]["labels"].items()
    )
    for field in ("serviceAccountName", "priorityClassName", "runtimeClassName"):
        spec.pop(field, None)
    pod = object_of("Pod", "tried", spec | {"automountServiceAccountToken": False}, namespace=namespace)
    return kubectl(plane, "create", "--dry-run=server", "-f", "-", manifest=pod)


@pytest.mark.parametrize("values", variants(), ids=lambda path: str(path.name))
def test_the_operator_is_restricted(
    installed: LoopbackControlPlane, namespaces: dict[str, str], values: Path
) -> None:
    answer = tried(installed, values, "operator", namespaces["restricted"])
    assert answer.returncode == 0, answer.stderr


@pytest.mark.parametrize("values", ["all-options-values.yaml", "groups-values.yaml"])
def test_the_board_is_restricted(
    installed: LoopbackControlPlane, namespaces: dict[str, str], values: str
) -> None:
    answer = tried(installed, CHART / "ci" / values, "board", namespaces["restricted"])
    assert answer.returncode == 0, answer.stderr


def test_the_node_pods_need_a_privileged_namespace(
    installed: LoopbackControlPlane, namespaces: dict[str, str]
) -> None:
    values = CHART / "ci" / "default-values.yaml"
    refused = tried(installed, values, "node", namespaces["restricted"])
    assert 'violates PodSecurity "restricted' in refused.stderr
    answer = tried(installed, values, "node", namespaces["privileged"])
    assert answer.returncode == 0, answer.stderr
