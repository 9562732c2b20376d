"""The one decision: from a snapshot to a plan."""

from __future__ import annotations

from laneway.scheduling.plan_types import Plan
from laneway.scheduling.registry import Policies
from laneway.scheduling.snapshot import ClusterSnapshot


def plan(snapshot: ClusterSnapshot, now_seconds: float, policies: Policies) -> Plan:
    """Decide who starts where, who makes way for whom, and why the others wait.

    Pure and deterministic; the order in which the snapshot lists things changes nothing.

    Raises:
        InvalidPlan: a policy broke an invariant (see :func:`laneway.scheduling.validate`).
    """
    raise NotImplementedError
