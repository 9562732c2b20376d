"""After kube-scheduler refused workers of a job, no other job is preempted for it until something changes.

The planner knows what pods request, but not all that kube-scheduler checks (volumes, anti-affinity, host ports). A refused gang that
preempts again finds the same refusal, and its victims have stopped in vain.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.api.job_conditions import ConditionType
from laneway.api.pod_requests import amounts, quantities
from laneway.api.training_job_status import RefusedNodeStatus, SchedulerRefusalStatus
from laneway.operator.lifecycle import transitions
from laneway.operator.lifecycle.reconciled_job import ReconcileContext
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.host_resources import available
from laneway.operator.state.records.job_record import JobRecord

_SETTLE_SECONDS = 30.0
"""For this long after a refusal, a node may report pods that took its resources before: less counts as if it had been so then."""


def new_refusal(job: JobRecord, nodes: Iterable[str], state: ClusterState) -> SchedulerRefusalStatus:
    """Return the refusal of workers on these nodes, with what has to change."""
    return SchedulerRefusalStatus(
        generation=job.generation, nodes=tuple(_as_now(node, job, state) for node in sorted(nodes))
    )


def standing_refusal(job: JobRecord, context: ReconcileContext) -> SchedulerRefusalStatus | None:
    """Return a job's last refusal as long as nothing has changed; None if something has, or there is none."""
    refusal = job.status.scheduler_refusal
    if refusal is None or refusal.generation != job.generation:
        return None
    if any(_has_more(node, context.state) for node in refusal.nodes):
        return None
    since_seconds = transitions.since_seconds(job.status, ConditionType.PLACED, context.now_seconds)
    if context.now_seconds > since_seconds + _SETTLE_SECONDS:
        return refusal
    nodes = tuple(_as_now(each.node, job, context.state) for each in refusal.nodes)
    return refusal if nodes == refusal.nodes else refusal.model_copy(update={"nodes": nodes})


def _as_now(node: str, job: JobRecord, state: ClusterState) -> RefusedNodeStatus:
    others = (uid for uid, pod in state.pods_on.get(node, {}).items() if pod.job_uid != job.uid)
    return RefusedNodeStatus(
        node=node, available=quantities(available(state, node) or {}), pods=tuple(sorted(others))
    )


def _has_more(then: RefusedNodeStatus, state: ClusterState) -> bool:
    """Whether a node has gained a resource since, a worker has left it, or it is gone."""
    now = available(state, then.node) or {}
    before = amounts(then.available)
    return (
        then.node not in state.nodes
        or any(amount > before.get(name, 0) for name, amount in now.items())
        or not state.pods_on.get(then.node, {}).keys() >= set(then.pods)
    )
