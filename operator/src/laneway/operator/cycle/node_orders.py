"""Diffs the desired node orders against the current ones.

The GPUNode's ``managedFields`` tell the operator's own orders from others'. If somebody else orders a pod (with
``kubectl laneway pause``, say), the operator gives it no order: a list entry has one ``order``, and the other manager's stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from laneway.api.orders import Order, PodOrder
from laneway.operator.cycle.job_cache import JobCache
from laneway.operator.lifecycle import pausing
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.records.gpu_node_record import GPUNodeRecord
from laneway.operator.state.records.job_record import JobRecord
from laneway.operator.state.records.worker_pod import WorkerPod
from laneway.scheduling import PreemptionAction

_ORDERS = {PreemptionAction.PAUSE: Order.PAUSE, PreemptionAction.OFFLOAD: Order.OFFLOAD}
_LONGEST_REASON = 512


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """What the operator is to have ordered of a node from now on."""

    node: GPUNodeRecord
    orders: tuple[PodOrder, ...]
    """By the uid of their pods."""

    jobs: frozenset[str]
    """Uids of the jobs whose statuses say why: no order goes out, nor is one taken back, before these are written."""


def node_writes(state: ClusterState, cache: JobCache) -> tuple[NodeWrite, ...]:
    """Return the nodes whose orders are not as they are to be."""
    wanted: dict[str, dict[str, tuple[PodOrder, str]]] = {}
    for uid in sorted(cache.preempted):
        job = cache.jobs[uid].job
        action = pausing.pause_action(job.status) if _has_pods(job) else None
        if action is None or job.status.preemption is None:
            continue
        reason = f"{job.key}: {job.status.preemption.message}"[:_LONGEST_REASON]
        for pod in state.pods.get(uid, ()):
            if pod.attempt == job.status.attempt and pod.bound and not pod.ended:
                order = PodOrder(podUID=pod.uid, order=_ORDERS[action], reason=reason)
                wanted.setdefault(pod.node, {})[pod.uid] = (order, uid)
    nodes = (
        state.gpu_nodes[name]
        for name in sorted(state.ordered_nodes | wanted.keys())
        if name in state.gpu_nodes
    )
    writes = (_node_write(node, wanted.get(node.name, {}), state, cache) for node in nodes)
    return tuple(write for write in writes if write is not None)


def _node_write(
    node: GPUNodeRecord, wanted: Mapping[str, tuple[PodOrder, str]], state: ClusterState, cache: JobCache
) -> NodeWrite | None:
    orders = {uid: order for uid, (order, _) in wanted.items() if uid not in node.others_orders}
    # A paused worker that is told to end saves its checkpoint where it stands; without its order it would ask for turns again.
    ordered = {order.pod_uid: state.pod_by_uid.get(order.pod_uid) for order in node.own_orders}
    orders |= {order.pod_uid: order for order in node.own_orders if _is_ending(ordered[order.pod_uid], cache)}
    listed = tuple(orders[uid] for uid in sorted(orders))
    if listed == tuple(sorted(node.own_orders, key=lambda order: order.pod_uid)):
        return None
    ordered_before = {pod.job_uid for pod in ordered.values() if pod is not None}
    return NodeWrite(node, listed, frozenset(uid for _, uid in wanted.values()) | ordered_before)


def _is_ending(pod: WorkerPod | None, cache: JobCache) -> bool:
    """Whether a pod is told to end, or is about to be."""
    if pod is None or pod.ended:
        return False
    if pod.deleting or pod.job_uid not in cache.jobs:
        return True
    job = cache.jobs[pod.job_uid].job
    return not _has_pods(job) or job.status.attempt != pod.attempt


def _has_pods(job: JobRecord) -> bool:
    """Whether the pods of the job's attempt are to be there."""
    return job.placed and not job.finished
