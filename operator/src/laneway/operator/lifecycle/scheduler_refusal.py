"""After kube-scheduler refused workers of a job, no other job is preempted for it until something changes; after a kubelet did, for
some minutes.

The planner knows what pods request, but not all that these check (volumes, anti-affinity, host ports, devices). A refused gang that
preempts again finds the same refusal, and its victims have stopped in vain.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

from laneway.api.pod_requests import amounts, quantities
from laneway.api.rfc3339 import format_time, parse_time
from laneway.api.training_job_status import RefusedNodeStatus, SchedulerRefusalStatus
from laneway.operator.lifecycle.reconciled_job import ReconcileContext
from laneway.operator.state.cluster_state import ClusterState
from laneway.operator.state.host_resources import available
from laneway.operator.state.records.job_record import JobRecord
from laneway.scheduling.model.retries import refusal_pause_seconds

_SETTLE_SECONDS = 30.0
"""For this long after a refusal, a node may report pods that took its resources before: less counts as if it had been so then."""


def new_refusal(job: JobRecord, nodes: Iterable[str], context: ReconcileContext) -> SchedulerRefusalStatus:
    """Return the refusal of workers on these nodes, with what has to change; no nodes: only time has to pass."""
    before = job.status.scheduler_refusal
    in_a_row = before is not None and before.generation == job.generation
    return SchedulerRefusalStatus(
        generation=job.generation,
        since=format_time(context.now_seconds),
        times=before.times + 1 if in_a_row and before is not None else 1,
        nodes=tuple(_as_now(node, job, context.state) for node in sorted(nodes)),
    )


def reviewed(job: JobRecord, context: ReconcileContext) -> tuple[SchedulerRefusalStatus | None, float]:
    """Return a job's last refusal, lifted if something has changed and its time is over, and when that is to be reviewed though
    nothing changes. A refusal of an earlier spec is dropped."""
    refusal = job.status.scheduler_refusal
    if refusal is None or refusal.generation != job.generation:
        return None, math.inf
    since_seconds = parse_time(refusal.since)
    if any(_has_more(node, job, context.state) for node in refusal.nodes):
        refusal = refusal.model_copy(update={"nodes": ()})
    elif refusal.nodes and context.now_seconds <= since_seconds + _SETTLE_SECONDS:
        nodes = tuple(_as_now(each.node, job, context.state) for each in refusal.nodes)
        if nodes != refusal.nodes:
            refusal = refusal.model_copy(update={"nodes": nodes})
    if refusal.nodes or refusal.lifted:
        return refusal, math.inf
    until_seconds = since_seconds + refusal_pause_seconds(refusal.times)
    if context.now_seconds < until_seconds:
        return refusal, until_seconds
    return refusal.model_copy(update={"lifted": True}), math.inf


def _as_now(node: str, job: JobRecord, state: ClusterState) -> RefusedNodeStatus:
    others = (
        _fingerprint(uid, job) for uid, pod in state.pods_on.get(node, {}).items() if pod.job_uid != job.uid
    )
    # Pods may request more than is left of a resource, such as devices that have failed; a quantity is never negative.
    left = {name: max(0, amount) for name, amount in (available(state, node) or {}).items()}
    return RefusedNodeStatus(node=node, available=quantities(left), pods=tuple(sorted(others)))


def _fingerprint(uid: str, job: JobRecord) -> str:
    """Return what stands for another job's worker in a job's status, whose readers are not told its UID."""
    return hashlib.sha256(f"{job.uid}/{uid}".encode()).hexdigest()[:16]


def _has_more(then: RefusedNodeStatus, job: JobRecord, state: ClusterState) -> bool:
    """Whether a node has gained a resource since, a worker has left it, or it is gone."""
    now = available(state, then.node) or {}
    try:
        before = amounts(then.available)
    except ValueError:
        return True  # a user wrote it: what was there is unknown
    return (
        then.node not in state.nodes
        or any(amount > before.get(name, 0) for name, amount in now.items())
        or not {_fingerprint(uid, job) for uid in state.pods_on.get(then.node, {})} >= set(then.pods)
    )
