"""Which nodes a worker may go to by its own template: node selector, required node affinity, tolerations.

kube-scheduler checks the same when the pod is there; asking here first keeps the planner from choosing a node that would
refuse. Source: https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from laneway.operator.state.records.node_record import NodeRecord, Taint

PodSpec = Mapping[str, Any]

_GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def obstacle(pod_spec: PodSpec, node: NodeRecord, *, worker: bool = True) -> str:
    """Return why a pod with this spec may not go to the node, as a clause; empty where it may.

    Args:
        pod_spec: of a template, or of another pod.
        node: the node.
        worker: whether the pod is a worker: it gets a toleration of the GPU nodes' usual taint.
    """
    selector = pod_spec.get("nodeSelector") or {}
    for key, value in selector.items():
        if node.labels.get(key) != value:
            return f"the template's nodeSelector asks for {key}={value}"
    terms = required_terms(pod_spec)
    if terms and not any(_term_matches(term, node) for term in terms):
        return "the template's node affinity does not match"
    tolerations = worker_tolerations(pod_spec) if worker else pod_spec.get("tolerations") or ()
    taint = next(_keeping_off(tolerations, node), None)
    return "" if taint is None else f"the template does not tolerate the taint {taint}"


def set_aside(pod_spec: PodSpec, node: NodeRecord) -> bool:
    """Whether people keep a pod with this spec off the node, by a cordon or a taint; Kubernetes' own taints tell the node's condition."""
    by_people = (
        each
        for each in _keeping_off(worker_tolerations(pod_spec), node)
        if not each.key.startswith("node.kubernetes.io/")
    )
    return node.cordoned or any(by_people)


def _keeping_off(tolerations: Collection[Mapping[str, Any]], node: NodeRecord) -> Iterator[Taint]:
    return (taint for taint in node.taints if not any(_tolerates(each, taint) for each in tolerations))


def worker_tolerations(pod_spec: PodSpec) -> list[dict[str, Any]]:
    """Return a worker's tolerations: the template's, and one for the taint by which clusters keep pods without a GPU off their GPU
    nodes. Kubernetes' admission plugin ExtendedResourceToleration adds it to pods that request ``nvidia.com/gpu``."""
    given = list(pod_spec.get("tolerations") or ())
    return given if _GPU_TOLERATION in given else [*given, dict(_GPU_TOLERATION)]


def required_terms(pod_spec: PodSpec) -> list[dict[str, Any]]:
    """Return the node selector terms that the spec requires; one of them has to match."""
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return list(required.get("nodeSelectorTerms") or ())


def _term_matches(term: Mapping[str, Any], node: NodeRecord) -> bool:
    expressions = list(term.get("matchExpressions") or ())
    fields = list(term.get("matchFields") or ())
    if not expressions and not fields:
        return False  # an empty term matches no node
    return all(_expression_matches(each, node.labels) for each in expressions) and all(
        _expression_matches(each, {"metadata.name": node.name}) for each in fields
    )


def _expression_matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(expression.get("key", ""))
    operator, values = expression.get("operator"), expression.get("values") or []
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    if operator in ("Gt", "Lt") and value is not None and len(values) == 1:
        return _compares(value, operator, values[0])
    return False


def _compares(value: str, operator: str, bound: str) -> bool:
    try:
        return int(value) > int(bound) if operator == "Gt" else int(value) < int(bound)
    except ValueError:
        return False


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.effect:
        return False
    if taint.effect == "NoExecute" and toleration.get("tolerationSeconds") is not None:
        return False  # kube-scheduler would let it in, to be evicted when these seconds are over
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint.key
    return toleration.get("key") == taint.key and (toleration.get("value") or "") == taint.value
