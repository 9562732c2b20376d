"""Memory lanes of one GPU and the turns in them: pure values and functions, no clock and no I/O.

A :class:`Tenant` is a container's hold on one GPU. :func:`fits` says whether a GPU can take one more; the planner asks
that, and so does the agent. The :class:`LaneTable` decides which lane a tenant is in; :mod:`laneway.lanes.turns` decides
whose turn it is in a lane. All of them count bytes with :mod:`laneway.lanes.safety`.
"""

from laneway.lanes.crowd import Crowd
from laneway.lanes.fitting import fits, refusal, tightest_bytes
from laneway.lanes.refusal import Refusal, RefusalReason
from laneway.lanes.safety import is_safe, lane_bytes, promised_bytes
from laneway.lanes.table import Lane, LaneTable, Moved, Outcome, Waiting
from laneway.lanes.tenant import LaneRules, Tenant, counted_ephemeral_bytes, counted_persistent_bytes

__all__ = [
    "Crowd",
    "Lane",
    "LaneRules",
    "LaneTable",
    "Moved",
    "Outcome",
    "Refusal",
    "RefusalReason",
    "Tenant",
    "Waiting",
    "counted_ephemeral_bytes",
    "counted_persistent_bytes",
    "fits",
    "is_safe",
    "lane_bytes",
    "promised_bytes",
    "refusal",
    "tightest_bytes",
]
