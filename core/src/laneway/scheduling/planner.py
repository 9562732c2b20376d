"""The one decision: from a snapshot to a plan."""

from __future__ import annotations

from laneway.scheduling.plan_types import Plan
from laneway.scheduling.scheduler import Scheduler
from laneway.scheduling.snapshot import ClusterSnapshot
from laneway.scheduling.stages import Policies


def plan(snapshot: ClusterSnapshot, now_seconds: float, policies: Policies) -> Plan:
    """Decide who starts where, who makes way for whom, and why the others wait.

    Pure and deterministic; the order in which the snapshot lists things changes nothing.

    Raises:
        InvalidPlan: a policy broke an invariant (see :func:`laneway.scheduling.validate`).
    """
    return _told(snapshot, policies).plan(now_seconds)


def next_decision_seconds(snapshot: ClusterSnapshot, now_seconds: float, policies: Policies) -> float | None:
    """Return when time alone may change the plan, if no job comes, ends or changes its state before; None: never.

    That is when a job changes its queue, or when a running job may be preempted from then on.
    """
    scheduler = _told(snapshot, policies)
    scheduler.decide(now_seconds)
    return scheduler.next_decision_seconds(now_seconds)


def _told(snapshot: ClusterSnapshot, policies: Policies) -> Scheduler:
    scheduler = Scheduler(snapshot.nodes, policies)
    for key, nodes in snapshot.avoid.items():
        scheduler.avoid(key, nodes)
    for job in snapshot.jobs:
        scheduler.observe(job)
    return scheduler
