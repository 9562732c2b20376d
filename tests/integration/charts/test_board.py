"""The board's Deployment has no rights, and a role lets viewers read turns."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.cluster.control_plane import LoopbackControlPlane
from hack.verify.chart import rendered_objects
from tests.integration.charts.conftest import NAMESPACE
from tests.support.rights import until_allowed

ValuesFile = Callable[[str], Path]


def objects(values: Path) -> dict[str, dict[str, Any]]:
    """The board's objects by kind."""
    found = rendered_objects(values)
    return {each["kind"]: each for each in found if each["metadata"]["name"] == "laneway-board"}


def test_it_is_off_by_default(values_file: ValuesFile) -> None:
    assert objects(values_file("{}")) == {}


def test_it_has_no_token_and_no_role(values_file: ValuesFile) -> None:
    found = objects(values_file("board: {enabled: true}"))
    assert found.keys() == {"ServiceAccount", "Deployment", "Service", "NetworkPolicy"}
    pod = found["Deployment"]["spec"]["template"]["spec"]
    assert found["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is False
    assert [volume.get("configMap") for volume in pod["volumes"]] == [{"name": "kube-root-ca.crt"}]


def test_it_reads_turns_where_the_agents_are_and_serves_https_with_a_certificate(
    values_file: ValuesFile,
) -> None:
    found = objects(values_file("board: {enabled: true, tlsSecretName: board-tls}"))
    (container,) = found["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert f"--agents-namespace={NAMESPACE}" in container["args"]
    assert "--tls=/etc/laneway-board/tls" in container["args"]
    assert container["readinessProbe"]["httpGet"]["scheme"] == "HTTPS"
    assert found["Service"]["spec"]["ports"][0]["port"] == 443


def test_the_given_peers_reach_it_and_nobody_else(values_file: ValuesFile) -> None:
    peers = "[{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: ingress}}}]"
    policy = objects(values_file(f"board: {{enabled: true, from: {peers}}}"))["NetworkPolicy"]
    (rule,) = policy["spec"]["ingress"]
    assert [port["port"] for port in rule["ports"]] == [8080]
    assert rule["from"] == yaml.safe_load(peers)


@pytest.fixture(scope="module")
def who_reads_turns(installed: LoopbackControlPlane) -> str:
    """A user with the role for turns."""
    kubectl = [str(installed.kubectl), "--kubeconfig", str(installed.kubeconfig), "-n", NAMESPACE]
    bind = ["create", "rolebinding", "turns", "--role=laneway-turns-view", "--user=turns"]
    subprocess.run([*kubectl, *bind], capture_output=True, check=True)
    until_allowed(installed, "turns", "list pods", NAMESPACE)
    return "turns"


@pytest.mark.parametrize(
    ("right", "allowed"),
    [
        ("list pods", True),
        ("get pods --subresource=proxy", True),
        ("create pods --subresource=proxy", False),
        ("get pods --subresource=log", False),
        ("create pods --subresource=exec", False),
        ("get secrets", False),
        ("list gpunodes.laneway.dev", False),
    ],
)
def test_who_may_read_turns_may_read_nothing_else(
    installed: LoopbackControlPlane, who_reads_turns: str, right: str, allowed: bool
) -> None:
    kubectl = [str(installed.kubectl), "--kubeconfig", str(installed.kubeconfig), "-n", NAMESPACE]
    asked = [*kubectl, "auth", "can-i", *right.split(), "--as", who_reads_turns]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    assert answer == ("yes" if allowed else "no")
