"""What the chart adds where a managed cluster or OpenShift would refuse the node pods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hack.chart.generated import CHART
from hack.verify.chart import rendered_objects

ValuesFile = Callable[[str], Path]


def objects(values: Path, kind: str, *arguments: str) -> list[dict[str, Any]]:
    return [each for each in rendered_objects(values, *arguments) if each["kind"] == kind]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ("{}", [("laneway-system", "system-node-critical")]),
        (
            "node: {priorityClassName: system-cluster-critical}",
            [("laneway-system", "system-cluster-critical")],
        ),
        ("node: {priorityClassName: ours}", []),
        ("node: {priorityClassName: ''}", []),
        (
            "operator: {priorityClassName: system-cluster-critical}\nnode: {namespace: laneway-nodes}",
            [("laneway-system", "system-cluster-critical"), ("laneway-nodes", "system-node-critical")],
        ),
        (
            "board: {enabled: true, priorityClassName: system-cluster-critical}\nnode: {priorityClassName: ours}",
            [("laneway-system", "system-cluster-critical")],
        ),
        ("board: {priorityClassName: system-cluster-critical}\nnode: {priorityClassName: ours}", []),
    ],
)
def test_a_quota_names_the_class_of_the_system(
    values_file: ValuesFile, values: str, classes: list[tuple[str, str]]
) -> None:
    quotas = objects(values_file(values), "ResourceQuota")
    named = [
        (each["metadata"]["namespace"], name)
        for each in quotas
        for name in each["spec"]["scopeSelector"]["matchExpressions"][0]["values"]
    ]
    assert named == classes


def test_each_class_of_the_system_that_a_pod_has_is_in_a_quota_of_its_namespace() -> None:
    """With several pods of a class in a namespace, no two quotas have the same name."""
    found = rendered_objects(CHART / "ci" / "all-options-values.yaml")
    quotas = [each for each in found if each["kind"] == "ResourceQuota"]
    named = {
        (each["metadata"]["namespace"], name)
        for each in quotas
        for name in each["spec"]["scopeSelector"]["matchExpressions"][0]["values"]
    }
    of_pods = {
        (each["metadata"]["namespace"], each["spec"]["template"]["spec"]["priorityClassName"])
        for each in found
        if each["kind"] in ("Deployment", "DaemonSet")
    }
    assert named == of_pods
    names = [each["metadata"]["name"] for each in quotas]
    assert sorted(names) == ["sharing-board-priority", "sharing-node-priority", "sharing-operator-priority"]


def test_openshift_lets_the_node_pods_use_the_host(values_file: ValuesFile) -> None:
    def privileged(*arguments: str) -> list[Any]:
        bindings = objects(values_file("{}"), "RoleBinding", *arguments)
        return [
            each["subjects"]
            for each in bindings
            if each["roleRef"]["name"] == "system:openshift:scc:privileged"
        ]

    account = {"kind": "ServiceAccount", "name": "laneway-node", "namespace": "laneway-system"}
    assert privileged("--api-versions", "security.openshift.io/v1") == [[account]]
    assert privileged() == []


def test_openshift_gives_every_pod_an_scc(values_file: ValuesFile) -> None:
    everything = "board: {enabled: true, tlsSecretName: board}\nmetrics: {secure: {enabled: true}}"
    platform = ("--values", str(CHART / "platforms" / "openshift.yaml"))
    mps = ("--set", "node.config.enforcement.level=MPS")
    values = values_file(everything)
    workloads = [
        each for kind in ("Deployment", "DaemonSet") for each in objects(values, kind, *platform, *mps)
    ]
    assert len(workloads) == 4
    for workload in workloads:
        pod = workload["spec"]["template"]["spec"]
        if pod["serviceAccountName"] == "laneway-node":  # the SCC `privileged`, which allows all
            continue
        contexts = [pod["securityContext"], *(each["securityContext"] for each in pod["containers"])]
        chosen_by_openshift = {"runAsUser", "runAsGroup", "fsGroup"}
        assert not [each for each in contexts if chosen_by_openshift & each.keys()], workload["metadata"]
