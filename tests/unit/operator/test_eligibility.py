"""Which nodes a template allows."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.operator.eligibility import is_eligible

from tests.unit.operator.builders import a_node

LABELS = {"zone": "a", "cores": "16"}
TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}
            }
        }
    }


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"nodeSelector": {"rack": "a"}}, False),
        (required(expression("zone", "In", "b", "a")), True),
        (required(expression("zone", "NotIn", "a")), False),
        (required(expression("rack", "NotIn", "a")), True),
        (required(expression("zone", "Exists")), True),
        (required(expression("zone", "DoesNotExist")), False),
        (required(expression("cores", "Gt", "8")), True),
        (required(expression("cores", "Lt", "16")), False),
        (required(expression("zone", "Gt", "8")), False),
        (required(expression("zone", "In", "b"), expression("cores", "Exists")), True),
        (required({}), False),
        (required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}), True),
        (required({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}), False),
    ],
)
def test_selectors(spec: dict[str, Any], want: bool) -> None:
    assert is_eligible(spec, a_node("n1", labels=LABELS)) is want


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        (None, False),
        ({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "no"}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_taints(toleration: dict[str, Any] | None, want: bool) -> None:
    spec = {"tolerations": [toleration]} if toleration else {}
    assert is_eligible(spec, a_node("n1", taints=[TAINT])) is want


def test_a_taint_that_only_prefers_keeps_nobody_off() -> None:
    node = a_node("n1", taints=[{"key": "x", "effect": "PreferNoSchedule"}])
    assert is_eligible({}, node)


def test_a_cordon_is_told_as_a_cordon_not_as_its_taint() -> None:
    node = a_node(
        "n1", cordoned=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    )
    assert is_eligible({}, node)
    assert node.refusal == "it is cordoned"
