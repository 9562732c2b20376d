"""Nodes and GPUNodes, with the sessions that agents report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from laneway.api.conditions import Condition
from laneway.api.rfc3339 import format_time
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord, parse_gpu_node
from laneway.operator.state.records.node_record import NodeRecord, parse_node
from laneway.operator.state.records.worker_pod import WorkerPod

from tests.unit.operator.builders.moment import GIB, NOW
from tests.unit.operator.builders.placements import gpu_uuid


def a_session(pod: WorkerPod, **figures: Any) -> dict[str, Any]:
    """A session of a worker, as its node reports it."""
    return {
        "key": pod.uid,
        "namespace": pod.namespace,
        "pod": pod.name,
        "podUID": pod.uid,
        "container": "trainer",
        "sharePercent": pod.share_percent,
        "quotaBytes": GIB,
        "state": "Holding",
        **figures,
    }


def a_plain_session(name: str, percent: int, **figures: Any) -> dict[str, Any]:
    """A session of a pod that is none of ours."""
    return {
        "key": name,
        "namespace": "other",
        "pod": name,
        "podUID": f"uid-{name}",
        "container": "c",
        "sharePercent": percent,
        "quotaBytes": GIB,
        "state": "Allocated",
        **figures,
    }


def a_gpu(node: str, index: int) -> dict[str, Any]:
    """A GPU of 80 GiB, as its node reports it."""
    return {
        "uuid": gpu_uuid(node, index),
        "index": index,
        "model": "A100",
        "memoryBytes": 80 * GIB,
        "allocatableBytes": 80 * GIB,
        "allocatablePercent": 100,
        "healthy": True,
        "sessions": [],
    }


def a_gpu_node(
    name: str,
    gpus: int = 4,
    *,
    ready: bool = True,
    doubly_offered: bool = False,
    sessions: Mapping[int, Sequence[dict[str, Any]]] | None = None,
    sick: dict[int, float] | None = None,
    percent: int = 100,
) -> GPUNodeRecord:
    """What a node's agent reports: GPUs of 80 GiB that offer so many percent, some of them out of use since some time."""
    conditions = [
        Condition(
            type=kind,
            status="True" if is_so else "False",
            reason="Tested",
            message="",
            last_transition_time=format_time(NOW),
        ).to_json()
        for kind, is_so in (("Ready", ready), ("DoublyOffered", doubly_offered))
    ]
    listed = [
        {
            **a_gpu(name, index),
            **_health((sick or {}).get(index)),
            "allocatablePercent": percent,
            "sessions": list((sessions or {}).get(index, ())),
        }
        for index in range(gpus)
    ]
    return parse_gpu_node({"metadata": {"name": name}, "status": {"conditions": conditions, "gpus": listed}})


def _health(sick_since: float | None) -> dict[str, Any]:
    if sick_since is None:
        return {}
    return {"healthy": False, "healthReason": "XID 79", "unhealthySince": format_time(sick_since)}


def a_node(
    name: str,
    *,
    ready: bool = True,
    since: float = NOW - 1000,
    cordoned: bool = False,
    labels: dict[str, str] | None = None,
    taints: Sequence[dict[str, str]] = (),
    allocatable: Mapping[str, str] | None = None,
) -> NodeRecord:
    """A Node."""
    condition = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "lastTransitionTime": format_time(since),
    }
    return parse_node(
        {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"unschedulable": cordoned, "taints": list(taints)},
            "status": {"conditions": [condition], "allocatable": allocatable},
        }
    )
