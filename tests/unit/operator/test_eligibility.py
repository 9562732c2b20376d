"""Which nodes a template allows."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.operator.cycle.node_choice import NodeChoice
from laneway.operator.state.eligibility import obstacle, set_aside
from laneway.operator.state.records.node_record import NodeRecord

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
    assert (not obstacle(spec, a_node("n1", labels=LABELS))) is want


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
    assert (not obstacle(spec, a_node("n1", taints=[TAINT]))) is want


def test_a_worker_tolerates_the_taint_of_gpu_nodes() -> None:
    node = a_node("n1", taints=[{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}])
    assert not obstacle({}, node)
    assert not set_aside({}, node)
    reset = a_node("n1", taints=[{"key": "nvidia.com/gpu", "value": "reset", "effect": "NoExecute"}])
    assert "does not tolerate" in obstacle({}, reset)


def test_a_taint_that_only_prefers_keeps_nobody_off() -> None:
    node = a_node("n1", taints=[{"key": "x", "effect": "PreferNoSchedule"}])
    assert not obstacle({}, node)


def test_a_cordon_is_told_as_a_cordon_not_as_its_taint() -> None:
    node = a_node(
        "n1", cordoned=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]
    )
    assert not obstacle({}, node)
    assert node.refusal == "it is cordoned"


EVICTS = {"key": "maintenance", "effect": "NoExecute"}


def test_who_would_be_evicted_after_a_while_is_not_sent_there() -> None:
    node = a_node("n1", taints=[EVICTS])
    for_good = {"key": "maintenance", "operator": "Exists"}
    assert not obstacle({"tolerations": [for_good]}, node)
    assert obstacle({"tolerations": [for_good | {"tolerationSeconds": 300}]}, node)


@pytest.mark.parametrize(
    ("spec", "taints", "want"),
    [
        ({"nodeSelector": {"disk": "tape"}}, [], "the template's nodeSelector asks for disk=tape"),
        ({}, [TAINT], "the template does not tolerate the taint gpu=yes:NoSchedule"),
        ({}, [EVICTS], "the template does not tolerate the taint maintenance:NoExecute"),
        ({}, [], ""),
    ],
)
def test_an_obstacle_is_named(spec: dict[str, Any], taints: list[dict[str, Any]], want: str) -> None:
    assert obstacle(spec, a_node("n1", labels=LABELS, taints=taints)) == want


@pytest.mark.parametrize(
    ("story", "node", "want"),
    [
        ("nothing", a_node("n1"), False),
        ("a cordon", a_node("n1", cordoned=True), True),
        ("a taint that somebody gave it", a_node("n1", taints=[EVICTS]), True),
        (
            "Kubernetes' own",
            a_node(
                "n1", ready=False, taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]
            ),
            False,
        ),
    ],
)
def test_people_set_a_node_aside_by_a_cordon_or_a_taint(story: str, node: NodeRecord, want: bool) -> None:
    assert set_aside({}, node) is want, story


def test_nodes_are_told_by_reason_the_first_of_many_by_name() -> None:
    choice = NodeChoice()
    tainted = [a_node(f"t{number}", labels=LABELS, taints=[EVICTS]) for number in range(5)]
    choice.set_nodes([*tainted, a_node("free", labels=LABELS), a_node("other")])
    refused = choice.refused({"nodeSelector": {"zone": "a"}})
    assert refused.nodes == {"t0", "t1", "t2", "t3", "t4", "other"}
    assert refused.sentence == (
        "Its workers cannot go to t0, t1, t2 and 2 more, since the template does not tolerate the taint "
        "maintenance:NoExecute; other, since the template's nodeSelector asks for zone=a."
    )
    assert choice.refused({"nodeSelector": {"zone": "a"}, "tolerations": [{"operator": "Exists"}]}).nodes == {
        "other"
    }
