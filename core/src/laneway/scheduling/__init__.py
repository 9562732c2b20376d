"""Which job runs when, on which GPUs: ``plan(snapshot, now_seconds, policies)``, pure.

A :class:`ClusterSnapshot` goes in, a :class:`Plan` comes out; the operator and the simulator call the same function.
The stages stand in the order in which a decision is made: ``admission``, ``order``, ``placement``, ``preemption``; a
policy is one file there, chosen by name through :func:`policies`.
"""

from laneway.api.training_job import PlacementMode
from laneway.scheduling.advice import Advice
from laneway.scheduling.plan_types import (
    NEVER_FITS,
    Depth,
    Plan,
    Preemption,
    PreemptionReason,
    WaitingCode,
    WaitingReason,
)
from laneway.scheduling.planner import next_decision_seconds, plan
from laneway.scheduling.registry import policies
from laneway.scheduling.scheduler import Scheduler
from laneway.scheduling.snapshot import (
    GPU,
    ClusterSnapshot,
    Demand,
    ForeignTenant,
    Job,
    JobState,
    Node,
    Profile,
    StageSeconds,
    WorkerPlacement,
)
from laneway.scheduling.stages import Policies
from laneway.scheduling.validation import InvalidPlan, validate
from laneway.scheduling.walk import Decision

__all__ = [
    "GPU",
    "NEVER_FITS",
    "Advice",
    "ClusterSnapshot",
    "Decision",
    "Demand",
    "Depth",
    "ForeignTenant",
    "InvalidPlan",
    "Job",
    "JobState",
    "Node",
    "PlacementMode",
    "Plan",
    "Policies",
    "Preemption",
    "PreemptionReason",
    "Profile",
    "Scheduler",
    "StageSeconds",
    "WaitingCode",
    "WaitingReason",
    "WorkerPlacement",
    "next_decision_seconds",
    "plan",
    "policies",
    "validate",
]
