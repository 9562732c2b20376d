"""Checks whether GPUs have the enforcement level that a pod demands. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api.device_ids import shares_of
from laneway.api.enforcement import LEVELS, Enforcement, reaches, shortfall
from laneway.api.inventory import Inventory
from laneway.api.mps_limits import mps_limit_shortfall
from laneway.api.names import MINIMUM_ENFORCEMENT_ANNOTATION
from laneway.api.quota import quota_bytes


def enforcement_shortfall(minimum: str, ids: Sequence[str], inventory: Inventory) -> str:
    """Return why a container must not start on these ids, as a sentence; empty if it may.

    Args:
        minimum: the level that its pod demands, as the annotation spells it; empty: any.
        ids: the container's ids.
        inventory: the node's GPUs.
    """
    held = shares_of(ids)
    for gpu in inventory.gpus:
        if gpu.uuid not in held:
            continue
        quota = quota_bytes(held[gpu.uuid], gpu.allocatable_bytes)
        shortfall_reason = shortfall(minimum, gpu.enforcement, gpu.enforcement_reason) or mps_limit_shortfall(
            minimum, gpu.mps_limit_bytes, quota
        )
        if shortfall_reason:
            remedy = (
                f"Lower the annotation {MINIMUM_ENFORCEMENT_ANNOTATION}, or send the pod to a node whose GPUNode reports that level"
                if minimum in LEVELS
                else f"Correct the annotation {MINIMUM_ENFORCEMENT_ANNOTATION}"
            )
            return f"the container must not start on GPU {gpu.uuid} of node {inventory.node}: {shortfall_reason}. {remedy}"
    return ""


def missing_interposer(minimum: str, ids: Sequence[str], inventory: Inventory) -> str:
    """Return why a container without the memory interposer must not start on these ids, as a sentence; empty if it may.

    It was allocated before its GPU had the level, and the kubelet mounts for each start what it was allocated with.

    Args:
        minimum: the level that its pod demands, a level that is in force; empty: any.
        ids: the container's ids.
        inventory: the node's GPUs.
    """
    if not minimum or not reaches(minimum, Enforcement.INTERPOSER):
        return ""
    held = shares_of(ids)
    for gpu in inventory.gpus:
        if gpu.uuid in held and gpu.enforcement == Enforcement.INTERPOSER:
            return (
                f"the container was allocated without the memory interposer, which GPU {gpu.uuid} of node {inventory.node} has by now, "
                f"and its pod demands the enforcement {minimum!r}. Delete the pod, so that another one is allocated with it"
            )
    return ""


def unknown_pod_shortfall(pod: str, ids: Sequence[str], inventory: Inventory) -> str:
    """Return why a container must not start on these ids before its pod is known, as a sentence; empty if it may.

    The pod may demand any level, so the strongest has to be in force.

    Args:
        pod: the pod that the kubelet names, ``namespace/name``.
        ids: the container's ids.
        inventory: the node's GPUs.
    """
    held = shares_of(ids)
    for gpu in inventory.gpus:
        if gpu.uuid not in held:
            continue
        unknown = (
            f"pod {pod} is not known: the API server did not answer, or has no such pod. It may demand more than "
            f"{str(gpu.enforcement)!r}, which is in force on GPU {gpu.uuid} of node {inventory.node} "
            f"(annotation {MINIMUM_ENFORCEMENT_ANNOTATION}). The container starts once the API server answers"
        )
        quota = quota_bytes(held[gpu.uuid], gpu.allocatable_bytes)
        if not reaches(gpu.enforcement, LEVELS[-1]) or gpu.mps_limit_bytes > quota:
            return unknown
    return ""
