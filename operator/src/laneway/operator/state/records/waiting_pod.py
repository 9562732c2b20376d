"""A pod of others than Laneway for which kube-scheduler finds no CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from laneway.api.pod_requests import pod_requests

_NO_CPUS = "Insufficient cpu"
"""In kube-scheduler's message."""

_CHOOSES_NODES = ("nodeSelector", "affinity", "tolerations")


@dataclass(frozen=True, slots=True)
class WaitingPod:
    """What such a pod needs of a node. Many are alike."""

    cpu_millis: int
    """CPUs that it requests, in thousandths; above 0."""

    spec: Mapping[str, Any]
    """The part of its spec that chooses nodes."""


def waiting_pod(raw: Mapping[str, Any]) -> WaitingPod | None:
    """Read a pod; None where it does not wait for CPUs."""
    conditions = (raw.get("status") or {}).get("conditions") or ()
    scheduled: Mapping[str, Any] = next(
        (each for each in conditions if each.get("type") == "PodScheduled"), {}
    )
    if scheduled.get("status") != "False" or _NO_CPUS not in (scheduled.get("message") or ""):
        return None
    spec = raw["spec"]
    cpus = pod_requests(spec).get("cpu", 0)
    return WaitingPod(cpus, {name: spec[name] for name in _CHOOSES_NODES if spec.get(name)}) if cpus else None
