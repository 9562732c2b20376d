"""Which nodes each waiting job keeps away from: by its template, and by taints. Many jobs say the same, so each answer is kept until the
nodes change."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from laneway.operator.state.eligibility import obstacle, required_terms
from laneway.operator.state.records.node_record import NodeRecord

_NAMED = 3
"""So many nodes are named for each reason."""


@dataclass(frozen=True, slots=True)
class Refusals:
    """The nodes to which pods with a spec cannot go."""

    nodes: frozenset[str] = frozenset()
    sentence: str = ""
    """Which these are and why; empty where there are none."""


class NodeChoice:
    """The nodes with GPUs, and the answers about them."""

    def __init__(self) -> None:
        self._nodes: list[NodeRecord] = []
        self._answers: dict[str, Refusals] = {}

    def set_nodes(self, nodes: Iterable[NodeRecord]) -> bool:
        """Replace the nodes that have GPUs; return whether that may change an answer."""
        nodes = list(nodes)
        if nodes == self._nodes:
            return False
        self._nodes = nodes
        self._answers.clear()
        return True

    def refused(self, pod_spec: Mapping[str, Any], *, worker: bool = True) -> Refusals:
        """Return the nodes to which a pod with this spec cannot go.

        Args:
            pod_spec: of its template or its own.
            worker: whether the pod is a worker.
        """
        said = [pod_spec.get("nodeSelector"), required_terms(pod_spec), pod_spec.get("tolerations"), worker]
        question = json.dumps(said, sort_keys=True)
        if question not in self._answers:
            self._answers[question] = _refusals(pod_spec, self._nodes, worker=worker)
        return self._answers[question]


def _refusals(pod_spec: Mapping[str, Any], nodes: Iterable[NodeRecord], *, worker: bool) -> Refusals:
    by_reason: dict[str, list[str]] = {}
    for node in nodes:
        if why := obstacle(pod_spec, node, worker=worker):
            by_reason.setdefault(why, []).append(node.name)
    if not by_reason:
        return Refusals()
    refused = "; ".join(f"{_listed(sorted(there))}, since {why}" for why, there in sorted(by_reason.items()))
    return Refusals(
        frozenset(name for there in by_reason.values() for name in there),
        f"Its workers cannot go to {refused}.",
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
