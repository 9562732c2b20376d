"""Fluent builders of the cluster's objects: ``a_job("a").gang(2).placed("n1", at=5).record``.

They build the objects as the API server has them and let the operator's own parsers read them.
"""

from __future__ import annotations

from tests.unit.operator.builders.gauges import gauges_of, samples_of, states_of
from tests.unit.operator.builders.jobs import JobBuilder, a_job
from tests.unit.operator.builders.moment import GIB, NOW, TIMEOUTS
from tests.unit.operator.builders.nodes import a_gpu, a_gpu_node, a_node, a_plain_session, a_session
from tests.unit.operator.builders.outcomes import (
    a_write,
    condition_of,
    context_of,
    decided,
    reasons,
    reconciled_job_of,
    write_of,
)
from tests.unit.operator.builders.placements import gpu_uuid, placement_on
from tests.unit.operator.builders.pods import PodBuilder, a_pod
from tests.unit.operator.builders.views import SchedulerView, a_view, scheduler_input, snapshot_of

__all__ = [
    "GIB",
    "NOW",
    "TIMEOUTS",
    "JobBuilder",
    "PodBuilder",
    "SchedulerView",
    "a_gpu",
    "a_gpu_node",
    "a_job",
    "a_node",
    "a_plain_session",
    "a_pod",
    "a_session",
    "a_view",
    "a_write",
    "condition_of",
    "context_of",
    "decided",
    "gauges_of",
    "gpu_uuid",
    "placement_on",
    "reasons",
    "reconciled_job_of",
    "samples_of",
    "scheduler_input",
    "snapshot_of",
    "states_of",
    "write_of",
]
