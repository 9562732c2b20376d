"""The API server takes the chart's pods under the Pod Security profiles that the README names, and finds no fault with its policies."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pytest

from hack.chart.generated import CHART
from hack.cluster.control_plane import LoopbackControlPlane
from hack.verify.chart import rendered_objects

POLICY_CHECKED_TIMEOUT_SECONDS = 60.0


def kubectl(
    plane: LoopbackControlPlane, *arguments: str, manifest: object = None
) -> subprocess.CompletedProcess[str]:
    command = [str(plane.kubectl), "--kubeconfig", str(plane.kubeconfig), *arguments]
    text = json.dumps(manifest) if manifest else None
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def pod_of(kind: str, namespace: str) -> dict[str, Any]:
    """A pod as the chart's Deployment or DaemonSet would make it."""
    objects = rendered_objects(CHART / "ci" / "simulated-values.yaml")
    template = next(found["spec"]["template"] for found in objects if found["kind"] == kind)
    metadata = {"name": kind.lower(), "namespace": namespace, "labels": template["metadata"]["labels"]}
    # The account is the release's, in another namespace; this test is about the pod's own fields.
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**template["spec"], "serviceAccountName": "default"},
    }


@pytest.mark.parametrize(
    ("kind", "profile", "taken"),
    [
        ("Deployment", "restricted", True),
        ("DaemonSet", "privileged", True),
        ("DaemonSet", "baseline", False),
    ],
)
def test_pod_security(installed: LoopbackControlPlane, kind: str, profile: str, taken: bool) -> None:
    namespace = f"chart-{kind.lower()}-{profile}"
    labels = {"pod-security.kubernetes.io/enforce": profile}
    made = kubectl(
        installed,
        "create",
        "-f",
        "-",
        manifest={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}},
    )
    assert made.returncode == 0, made.stderr
    assert (
        kubectl(
            installed, "wait", "--for=create", "serviceaccount/default", "-n", namespace, "--timeout=60s"
        ).returncode
        == 0
    )
    answer = kubectl(installed, "create", "--dry-run=server", "-f", "-", manifest=pod_of(kind, namespace))
    assert (answer.returncode == 0) is taken, answer.stderr
    if not taken:
        assert f'violates PodSecurity "{profile}:latest"' in answer.stderr


@pytest.mark.parametrize("subject", ["node", "pods"])
def test_a_policy_type_checks_against_its_objects(installed: LoopbackControlPlane, subject: str) -> None:
    deadline = time.monotonic() + POLICY_CHECKED_TIMEOUT_SECONDS
    name = f"laneway-{subject}.laneway-system.laneway.dev"
    while True:
        policy = json.loads(kubectl(installed, "get", "validatingadmissionpolicy", name, "-o", "json").stdout)
        status = policy.get("status", {})
        if status.get("observedGeneration") == policy["metadata"]["generation"]:
            break
        assert time.monotonic() < deadline, f"the API server never checked the policy: {status}"
        kubectl(
            installed,
            "wait",
            "--for=jsonpath={.status.observedGeneration}",
            f"validatingadmissionpolicy/{name}",
            "--timeout=5s",
        )
    assert status.get("typeChecking", {}).get("expressionWarnings", []) == []
