"""What the chart adds where a managed cluster or OpenShift would refuse the node pods."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.verify.chart import rendered

ValuesFile = Callable[[str], Path]


def objects(values: Path, kind: str, *arguments: str) -> list[dict[str, Any]]:
    return [
        each for each in yaml.safe_load_all(rendered(values, *arguments)) if each and each["kind"] == kind
    ]


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        ("{}", ["system-node-critical"]),
        ("node: {priorityClassName: system-cluster-critical}", ["system-cluster-critical"]),
        ("node: {priorityClassName: ours}", []),
        ("node: {priorityClassName: ''}", []),
    ],
)
def test_a_quota_names_the_class_of_the_system(
    values_file: ValuesFile, values: str, classes: list[str]
) -> None:
    quotas = objects(values_file(values), "ResourceQuota")
    named = [each["spec"]["scopeSelector"]["matchExpressions"][0]["values"] for each in quotas]
    assert named == [[name] for name in classes]
    assert all(each["metadata"]["namespace"] == "laneway-system" for each in quotas)


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
