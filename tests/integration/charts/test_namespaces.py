"""The node pods in a namespace of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hack.verify.chart import rendered_objects

ValuesFile = Callable[[str], Path]
APART = "node: {namespace: laneway-nodes}\n"


def objects(values: Path, *arguments: str) -> list[dict[str, Any]]:
    return rendered_objects(values, *arguments)


def places(found: list[dict[str, Any]], namespace: str) -> set[str]:
    """The objects of a namespace, as kind/name."""
    return {
        f"{each['kind']}/{each['metadata']['name']}"
        for each in found
        if each["metadata"].get("namespace") == namespace
    }


def test_their_namespace_has_what_is_theirs(values_file: ValuesFile) -> None:
    found = objects(values_file(APART), "--api-versions", "security.openshift.io/v1")
    assert places(found, "laneway-nodes") == {
        "ConfigMap/laneway-node",
        "DaemonSet/laneway-node",
        "NetworkPolicy/laneway-node",
        "ResourceQuota/laneway-node-priority",
        "Role/laneway-turns-view",
        "RoleBinding/laneway-node-scc",
        "ServiceAccount/laneway-node",
    }


def test_the_leases_stay_with_the_operator_who_reads_them(values_file: ValuesFile) -> None:
    found = objects(values_file(APART))
    (daemon,) = (each for each in found if each["kind"] == "DaemonSet")
    (agent,) = (
        each for each in daemon["spec"]["template"]["spec"]["containers"] if each["name"] == "node-agent"
    )
    assert "--namespace=laneway-system" in agent["args"]
    assert "Role/laneway-node" in places(found, "laneway-system")
    bindings = [each for each in found if each["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    subjects = [
        subject for each in bindings for subject in each["subjects"] if subject["name"] == "laneway-node"
    ]
    assert [subject["namespace"] for subject in subjects] == ["laneway-nodes"] * 2
    (policy,) = (
        each
        for each in found
        if each["kind"] == "ValidatingAdmissionPolicy"
        and each["metadata"]["name"].startswith("laneway-node.")
    )
    assert policy["spec"]["matchConditions"][0]["expression"].endswith(
        '"system:serviceaccount:laneway-nodes:laneway-node"'
    )
    leases = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
    assert leases == {"kubernetes.io/metadata.name": "laneway-system"}


@pytest.mark.parametrize(
    ("values", "created"),
    [
        ("{}", []),
        ("node: {namespace: laneway-system}", []),
        ("node: {namespace: laneway-nodes, createNamespace: false}", []),
        (APART, ["laneway-nodes"]),
    ],
)
def test_their_namespace_is_created_as_privileged(
    values_file: ValuesFile, values: str, created: list[str]
) -> None:
    found = [each["metadata"] for each in objects(values_file(values)) if each["kind"] == "Namespace"]
    assert [each["name"] for each in found] == created
    assert all(each["labels"]["pod-security.kubernetes.io/enforce"] == "privileged" for each in found)


@pytest.mark.parametrize("kind", ["podMonitor", "serviceMonitor"])
@pytest.mark.parametrize(
    ("values", "namespaces"), [("", ["laneway-system"]), (APART, ["laneway-system", "laneway-nodes"])]
)
def test_all_pods_are_scraped(values_file: ValuesFile, kind: str, values: str, namespaces: list[str]) -> None:
    found = objects(values_file(f"{values}metrics: {{{kind}: {{enabled: true, interval: 5s}}}}"))
    (monitor,) = (each["spec"] for each in found if each["kind"].lower() == kind.lower())
    assert monitor["namespaceSelector"]["matchNames"] == namespaces
    endpoints = monitor.get("endpoints") or monitor["podMetricsEndpoints"]
    scraped = {endpoint["port"] for endpoint in endpoints}
    assert all(endpoint["interval"] == "5s" for endpoint in endpoints)
    pods = [each["spec"]["template"] for each in found if each["kind"] in ("Deployment", "DaemonSet")]
    wanted = monitor["selector"]["matchLabels"].items()
    assert all(wanted <= pod["metadata"]["labels"].items() for pod in pods)
    ports = {
        port["name"] for pod in pods for each in pod["spec"]["containers"] for port in each.get("ports", ())
    }
    services = [each for each in found if each["kind"] == "Service"]
    if kind == "serviceMonitor":
        assert all(wanted <= each["metadata"]["labels"].items() for each in services)
        assert {port["name"] for each in services for port in each["spec"]["ports"]} == ports
    assert scraped == ports
