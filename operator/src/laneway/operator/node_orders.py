"""What each node is to be ordered, beside what it was: the difference is what is written.

The operator's own orders are told from others' by the GPUNode's ``managedFields``. A pod that somebody else gives an order to
(``kubectl laneway pause``, say) gets none of the operator's: an object of the list has one ``order``, and the other's word stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from laneway.api.orders import Order, PodOrder
from laneway.operator.cache import ClusterView
from laneway.operator.parking import parking_depth
from laneway.operator.records.gpu_node_record import GPUNodeRecord
from laneway.operator.records.job_record import JobRecord
from laneway.operator.standing import Standing
from laneway.scheduling import Depth

_ORDERS = {Depth.PAUSE: Order.PAUSE, Depth.OFFLOAD: Order.OFFLOAD}
_LONGEST_REASON = 512


@dataclass(frozen=True, slots=True)
class NodeStatement:
    """What the operator is to have ordered of a node from now on."""

    node: GPUNodeRecord
    orders: tuple[PodOrder, ...]
    """By the uid of their pods."""

    jobs: frozenset[str]
    """Uids of the jobs whose statuses say why: no order goes out, nor is one taken back, before these are written."""


def order_statements(view: ClusterView, standings: Iterable[Standing]) -> tuple[NodeStatement, ...]:
    """Return the nodes whose orders are not as they are to be.

    Args:
        view: what the cluster says.
        standings: at least those of the jobs that make way, or of which something is about to be written.
    """
    standings = tuple(standings)
    wanted: dict[str, dict[str, tuple[PodOrder, str]]] = {}
    for standing in standings:
        status = standing.job.status
        depth = parking_depth(status) if _has_pods(standing.job) else None
        if depth is None or status.preemption is None:
            continue
        reason = f"{standing.job.key}: {status.preemption.message}"[:_LONGEST_REASON]
        for pod in view.pods.get(standing.job.uid, ()):
            if pod.attempt == status.attempt and pod.bound and not pod.ended:
                order = PodOrder(podUID=pod.uid, order=_ORDERS[depth], reason=reason)
                wanted.setdefault(pod.node, {})[pod.uid] = (order, standing.job.uid)
    nodes = [node for node in view.gpu_nodes if node.own_orders or node.name in wanted]
    ordered = {order.pod_uid for node in nodes for order in node.own_orders}
    ending = _ending(view, standings) if ordered else frozenset()
    job_of = (
        {pod.uid: uid for uid, pods in view.pods.items() for pod in pods if pod.uid in ordered}
        if ordered
        else {}
    )
    return tuple(
        statement
        for node in nodes
        if (statement := _statement(node, wanted.get(node.name, {}), ending, job_of)) is not None
    )


def _statement(
    node: GPUNodeRecord,
    wanted: Mapping[str, tuple[PodOrder, str]],
    ending: frozenset[str],
    job_of: Mapping[str, str],
) -> NodeStatement | None:
    orders = {uid: order for uid, (order, _) in wanted.items() if uid not in node.others_orders}
    # A parked worker that is told to end saves its checkpoint where it stands; without its order it would ask for turns again.
    orders |= {order.pod_uid: order for order in node.own_orders if order.pod_uid in ending}
    listed = tuple(orders[uid] for uid in sorted(orders))
    if listed == tuple(sorted(node.own_orders, key=lambda order: order.pod_uid)):
        return None
    ordered_before = {job_of[order.pod_uid] for order in node.own_orders if order.pod_uid in job_of}
    return NodeStatement(node, listed, frozenset(job for _, job in wanted.values()) | ordered_before)


def _ending(view: ClusterView, standings: tuple[Standing, ...]) -> frozenset[str]:
    """Return the uids of the pods that are told to end, or are about to be."""
    jobs = {job.uid: job for job in view.jobs} | {standing.job.uid: standing.job for standing in standings}
    attempts = {uid: job.status.attempt for uid, job in jobs.items() if _has_pods(job)}
    return frozenset(
        pod.uid
        for pods in view.pods.values()
        for pod in pods
        if not pod.ended and (pod.deleting or attempts.get(pod.job_uid) != pod.attempt)
    )


def _has_pods(job: JobRecord) -> bool:
    """Whether the pods of the job's attempt are to be there."""
    return job.placed and not job.finished
