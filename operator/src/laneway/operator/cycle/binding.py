"""Which gangs the operator binds itself, with ``bindPods``: their pods are created with their node's name.

kube-scheduler leaves such pods alone, so nothing may be lost that it would have checked or done. The planner has compared selectors,
required node affinity, taints, cordons and requests with the nodes; the kubelet compares selectors, affinity and requests again when it
admits the pod. A gang that needs more than that is left to kube-scheduler. So is one whose last attempt did not start: kube-scheduler
then says what the planner does not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from laneway.api.names import GPU_PERCENT
from laneway.api.pod_requests import PODS, pod_requests
from laneway.operator.cycle.writes import JobWrite
from laneway.operator.state.cluster_state import ClusterState
from laneway.scheduling.model.host_resources import CPU, MEMORY

_FIELDS = (
    "hostNetwork",  # each port is the node's
    "resourceClaims",
    "runtimeClassName",  # may add an overhead, a selector and tolerations
    "schedulerName",
    "schedulingGates",
    "schedulingGroup",
    "topologySpreadConstraints",
)
_AFFINITIES = ("podAffinity", "podAntiAffinity")
_VOLUMES = frozenset(
    {"configMap", "downwardAPI", "emptyDir", "hostPath", "image", "nfs", "projected", "secret"}
)
"""Those that every node has, in any number. kube-scheduler chooses a volume for a claim, and counts the volumes of a node."""

_RESOURCES = frozenset({CPU, MEMORY, "ephemeral-storage", PODS})
"""Other resources may belong to another scheduler, or to a DRA driver, which needs a claim."""


def needs_scheduler(pod_spec: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler checks or does something for a pod with this spec that neither the planner nor a kubelet does."""
    affinity = pod_spec.get("affinity") or {}
    containers = chain(pod_spec.get("containers") or (), pod_spec.get("initContainers") or ())
    return (
        any(pod_spec.get(field) for field in _FIELDS)
        or any(affinity.get(kind) for kind in _AFFINITIES)
        or any(not volume.keys() - {"name"} <= _VOLUMES for volume in pod_spec.get("volumes") or ())
        or any(port.get("hostPort") for each in containers for port in each.get("ports") or ())
        or not pod_requests(pod_spec).keys() <= _RESOURCES
    )


def may_bind(write: JobWrite, state: ClusterState) -> bool:
    """Whether the operator may bind the pods that a write creates. It was decided from this state; an attempt that was decided before,
    and is only completed now, is left to kube-scheduler."""
    before, desired = write.job.status, write.job.desired
    starts = write.creates and write.status.attempt > before.attempt
    if not starts or desired is None or before.unstarted_attempts or before.scheduler_refusal is not None:
        return False
    nodes = {worker.node for worker in write.creates}
    return all(_is_known(node, state) for node in nodes) and not needs_scheduler(
        desired.spec.template["spec"]
    )


def _is_known(name: str, state: ClusterState) -> bool:
    """Whether the planner knows what a node has left: its agent knows its other pods, and its kubelet offers all shares of its GPUs. A
    kubelet that does not know the resource would start a bound pod without its GPUs."""
    node, gpu_node = state.nodes.get(name), state.gpu_nodes.get(name)
    if node is None or node.allocatable is None or gpu_node is None or gpu_node.other_pods is None:
        return False
    shares = sum(gpu.allocatable_percent for gpu in gpu_node.gpus if gpu.healthy)
    return node.allocatable.get(GPU_PERCENT, 0) >= shares
