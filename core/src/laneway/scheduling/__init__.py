"""Decides which training job runs when, on which GPUs. Pure: no I/O, no clock, no unseeded randomness.

The operator and the simulator keep a :class:`Scheduler`: they report nodes and jobs to it, ask it for a :class:`Plan`, and
report the result. Its packages, from the bottom up:

- ``model``: what goes in and out (jobs, nodes, plans), and models of how fast jobs run;
- ``gpus``: who holds which GPUs, what is free, what the cluster could hold;
- ``admission``, ``order``, ``elastic``, ``placement``, ``allocation``, ``preemption``: the policies of each stage, one file
  each;
- ``config``: policies by name (:func:`policies`), their parameters, and those of other packages;
- ``state``: what is kept from one cycle to the next;
- ``framework``: the session of a cycle, statements, and the cache of jobs that did not fit;
- ``explain``: reasons, start estimates and suggestions for waiting jobs;
- ``actions``: allocate, preempt, resume, stop;
- ``cycle``: the numbered steps of one cycle.
"""

from laneway.api.training_job import PlacementMode
from laneway.scheduling.config.registry import policies
from laneway.scheduling.config.stages import Policies
from laneway.scheduling.explain.start_estimates import StartEstimate
from laneway.scheduling.framework.session import MAX_PREEMPTORS
from laneway.scheduling.model.host_resources import HostResources
from laneway.scheduling.model.plan import (
    NEVER_FITS,
    Decision,
    Plan,
    Preemption,
    PreemptionAction,
    PreemptionReason,
    WaitingCode,
    WaitingReason,
)
from laneway.scheduling.model.snapshot import (
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
from laneway.scheduling.scheduler import Scheduler
from laneway.scheduling.validation import InvalidPlan

__all__ = [
    "GPU",
    "MAX_PREEMPTORS",
    "NEVER_FITS",
    "ClusterSnapshot",
    "Decision",
    "Demand",
    "ForeignTenant",
    "HostResources",
    "InvalidPlan",
    "Job",
    "JobState",
    "Node",
    "PlacementMode",
    "Plan",
    "Policies",
    "Preemption",
    "PreemptionAction",
    "PreemptionReason",
    "Profile",
    "Scheduler",
    "StageSeconds",
    "StartEstimate",
    "WaitingCode",
    "WaitingReason",
    "WorkerPlacement",
    "policies",
]
