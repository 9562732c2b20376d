"""What the chart's service accounts may do on a real API server, and what they may not (invariant 7)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

NAMESPACE = "laneway-system"
POLICY_TIMEOUT_SECONDS = 60.0

OPERATOR_MAY = [
    "list nodes",
    "watch gpunodes.laneway.dev",
    "patch gpunodes.laneway.dev",
    "watch trainingprofiles.laneway.dev",
    "create trainingprofiles.laneway.dev",
    "patch trainingprofiles.laneway.dev",
    "delete trainingprofiles.laneway.dev",
    "create pods",
    "delete pods",
    "patch pods",
    "patch pods --subresource=resize",
    "create services",
    "create events.events.k8s.io",
    "patch trainingjobs.laneway.dev --subresource=status",
    "delete trainingjobs.laneway.dev",
]
OPERATOR_MAY_NOT = [
    "patch trainingjobs.laneway.dev",
    "update trainingjobs.laneway.dev",
    "create trainingjobs.laneway.dev",
    "update gpunodes.laneway.dev",
    "create gpunodes.laneway.dev",
    "delete gpunodes.laneway.dev",
    "patch gpunodes.laneway.dev --subresource=status",
    "patch nodes",
    "get secrets",
    "get configmaps",
    "create pods --subresource=exec",
    "patch pods --subresource=status",
    "update pods",
    "list services",
    "watch services",
    "delete services",
    "patch services",
    "update services",
    "get leases.coordination.k8s.io",
]
NODE_MAY = [
    "list pods",
    "watch pods",
    "get nodes",
    "create gpunodes.laneway.dev",
    "list gpunodes.laneway.dev",
    "watch gpunodes.laneway.dev",
    "patch gpunodes.laneway.dev --subresource=status",
]
NODE_MAY_NOT = [
    "get pods",
    "create pods",
    "delete pods",
    "patch pods",
    "patch nodes",
    "get secrets",
    "delete gpunodes.laneway.dev",
    "list trainingjobs.laneway.dev",
    "patch trainingjobs.laneway.dev --subresource=status",
    "list trainingprofiles.laneway.dev",
    "patch trainingprofiles.laneway.dev",
    "create events",
]


def gpu_node(name: str) -> dict[str, Any]:
    return {"apiVersion": "laneway.dev/v1alpha1", "kind": "GPUNode", "metadata": {"name": name}, "spec": {}}


@pytest.mark.parametrize("right", OPERATOR_MAY)
def test_the_operator_may(account: Callable[..., Any], right: str) -> None:
    assert account("laneway-operator").may(right)


@pytest.mark.parametrize("right", OPERATOR_MAY_NOT)
def test_the_operator_may_not(account: Callable[..., Any], right: str) -> None:
    assert not account("laneway-operator").may(right)


@pytest.mark.parametrize("right", NODE_MAY)
def test_a_node_may(account: Callable[..., Any], right: str) -> None:
    assert account("laneway-node", "gpu-1").may(right)


@pytest.mark.parametrize("right", NODE_MAY_NOT)
def test_a_node_may_not(account: Callable[..., Any], right: str) -> None:
    assert not account("laneway-node", "gpu-1").may(right)


def test_the_operators_lease_is_the_only_one_that_it_may_write(account: Callable[..., Any]) -> None:
    operator = account("laneway-operator")
    assert operator.may("update leases.coordination.k8s.io/laneway-operator", NAMESPACE)
    assert not operator.may("update leases.coordination.k8s.io/another", NAMESPACE)
    assert not operator.may("update leases.coordination.k8s.io/laneway-operator", "kube-system")
    assert operator.may("list leases.coordination.k8s.io", NAMESPACE), "those of the agents"
    assert not operator.may("list leases.coordination.k8s.io", "kube-system")


def test_a_node_writes_its_own_gpunode_and_no_other(account: Callable[..., Any]) -> None:
    first, second = account("laneway-node", "gpu-1"), account("laneway-node", "gpu-2")
    unbound = account("laneway-node")
    refusal = until_the_policy_is_in_force(
        lambda: first.kubectl("apply", "--server-side", "-f", "-", manifest=gpu_node("gpu-2"))
    )
    assert (
        "a node may write its own GPUNode only: this token is of node gpu-1, the GPUNode is gpu-2"
        in refusal.stderr
    )

    for node, name in ((first, "gpu-1"), (second, "gpu-2")):
        made = node.kubectl("apply", "--server-side", "-f", "-", manifest=gpu_node(name))
        assert made.returncode == 0, made.stderr
    status = {**gpu_node("gpu-1"), "status": {"gpuCount": 0}}
    own = first.kubectl("apply", "--server-side", "--subresource=status", "-f", "-", manifest=status)
    assert own.returncode == 0, own.stderr
    others = second.kubectl("apply", "--server-side", "--subresource=status", "-f", "-", manifest=status)
    assert "this token is of node gpu-2, the GPUNode is gpu-1" in others.stderr
    assert (
        "this token is bound to no node"
        in unbound.kubectl("apply", "--server-side", "-f", "-", manifest=gpu_node("gpu-1")).stderr
    )


def lease(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"holderIdentity": "a test"},
    }


def test_a_node_renews_its_own_lease_and_no_other(account: Callable[..., Any]) -> None:
    first, second, operator = (
        account("laneway-node", "gpu-1"),
        account("laneway-node", "gpu-2"),
        account("laneway-operator"),
    )
    refusal = until_the_policy_is_in_force(
        lambda: first.kubectl("create", "-f", "-", "--dry-run=server", manifest=lease("node.gpu-2"))
    )
    assert (
        "a node may write its own Lease only: this token is of node gpu-1, the Lease is node.gpu-2"
        in refusal.stderr
    )
    for holder, name in ((first, "node.gpu-1"), (second, "node.gpu-2"), (operator, "laneway-operator")):
        made = holder.kubectl("create", "-f", "-", manifest=lease(name))
        assert made.returncode == 0, made.stderr
        renewed = holder.kubectl("replace", "-f", "-", manifest=lease(name))
        assert renewed.returncode == 0, renewed.stderr
    for name in ("node.gpu-2", "laneway-operator"):
        assert f"the Lease is {name}" in first.kubectl("replace", "-f", "-", manifest=lease(name)).stderr
    unbound = account("laneway-node").kubectl("replace", "-f", "-", manifest=lease("node.gpu-1"))
    assert "this token is bound to no node" in unbound.stderr
    assert first.kubectl("delete", "lease", "node.gpu-1", "-n", NAMESPACE).returncode != 0
    elsewhere = lease("node.gpu-1")
    elsewhere["metadata"]["namespace"] = "default"
    assert "forbidden" in first.kubectl("create", "-f", "-", manifest=elsewhere).stderr


def test_a_node_does_not_write_orders_and_lets_those_of_others_stay(account: Callable[..., Any]) -> None:
    node, operator = account("laneway-node", "gpu-1"), account("laneway-operator")
    order = {"podUID": "00000000-0000-0000-0000-000000000001", "order": "Pause", "reason": "a test"}
    ordered = {**gpu_node("gpu-1"), "spec": {"orders": [order]}}
    made = node.kubectl("apply", "--server-side", "-f", "-", manifest=gpu_node("gpu-1"))
    assert made.returncode == 0, made.stderr
    refusal = until_the_policy_is_in_force(
        lambda: node.kubectl("apply", "--server-side", "-f", "-", manifest=ordered)
    )
    assert "a node reads the orders in its GPUNode's spec and does not write them" in refusal.stderr

    apply = ("apply", "--server-side", "--field-manager", "laneway-operator", "-f", "-")
    given = operator.kubectl(*apply, manifest=ordered)
    assert given.returncode == 0, given.stderr
    # What the agent writes of the object itself says nothing of orders: it takes none away.
    again = node.kubectl("apply", "--server-side", "-f", "-", manifest=gpu_node("gpu-1"))
    assert again.returncode == 0, again.stderr
    status = {**gpu_node("gpu-1"), "status": {"gpuCount": 0}}
    own = node.kubectl("apply", "--server-side", "--subresource=status", "-f", "-", manifest=status)
    assert own.returncode == 0, own.stderr
    removed = node.kubectl(
        "patch", "gpunode", "gpu-1", "--type=merge", "-p", json.dumps({"spec": {"orders": None}})
    )
    assert "does not write them" in removed.stderr
    seen = json.loads(node.kubectl("get", "gpunode", "gpu-1", "-o", "json").stdout)
    assert seen["spec"]["orders"] == [order]


def until_the_policy_is_in_force(write: Callable[[], Any]) -> Any:
    """The first refused answer: the API server takes a new policy into force a moment after it was made."""
    deadline = time.monotonic() + POLICY_TIMEOUT_SECONDS
    while True:
        answer = write()
        if answer.returncode != 0:
            return answer
        assert time.monotonic() < deadline, "the policy never refused anything"
