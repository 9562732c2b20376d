"""A Node: whether new workers may go there, and what a pod's selectors and tolerations are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api.other_plugins import other_gpus
from laneway.api.pod_requests import amounts
from laneway.api.rfc3339 import parse_time

OTHER_PLUGIN = "another device plugin hands out its GPUs"
"""Why no new worker goes to a node: nobody keeps that plugin from handing out a GPU that is promised to a worker."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint that keeps pods off which do not tolerate it."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """As kubectl takes it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """One Node as the cluster has it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """Those with the effects NoSchedule and NoExecute."""

    cordoned: bool
    ready: bool
    not_ready_since_seconds: float | None
    """None while it is ready, or where the node does not say."""

    allocatable: Mapping[str, int] | None = None
    """What the kubelet offers to pods; CPUs in thousandths. None where the node does not say."""

    @property
    def refusal(self) -> str:
        """Why no new worker goes there, as a clause; empty where one may."""
        if self.cordoned:
            return "it is cordoned"
        if not self.ready:
            return "it is not ready"
        # The node's agent says so, too, but it reads its Node once a minute.
        return OTHER_PLUGIN if other_gpus(self.allocatable or {}) else ""


_UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
"""Comes with a cordon; the cordon itself is read from the spec."""


def parse_node(raw: dict[str, Any]) -> NodeRecord:
    """Read a Node."""
    metadata, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    conditions = {each.get("type"): each for each in status.get("conditions") or ()}
    ready = conditions.get("Ready") or {}
    is_ready = ready.get("status") == "True"
    changed = ready.get("lastTransitionTime")
    taints = tuple(
        Taint(each.get("key") or "", each.get("value") or "", each["effect"])
        for each in spec.get("taints") or ()
        if each.get("effect") in ("NoSchedule", "NoExecute") and each.get("key") != _UNSCHEDULABLE_TAINT
    )
    return NodeRecord(
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        taints=taints,
        cordoned=bool(spec.get("unschedulable")),
        ready=is_ready,
        not_ready_since_seconds=None if is_ready or not changed else parse_time(changed),
        allocatable=amounts(status["allocatable"]) if status.get("allocatable") else None,
    )
