"""Memory lanes of one GPU and the turns in them: pure values and functions, no clock and no I/O.

A :class:`Tenant` is a container on one GPU. :func:`fits` tells whether a GPU can take one more; the scheduler and the agent
both call it. The :class:`LaneTable` assigns tenants to lanes; :mod:`laneway.lanes.turns` chooses the next holder of a turn
in a lane, and :class:`RateControl` whether lanes run in parallel. All of them count bytes with :mod:`laneway.lanes.safety`. A
:class:`MemoryAccount` holds a container to its quota, allocation by allocation. :class:`SeenMemory` says what a tenant counts
with at least, whatever its processes report.
"""

from laneway.lanes.fitting import fits, refusal, tightest_bytes
from laneway.lanes.memory_account import MemoryAccount
from laneway.lanes.memory_usage import MemoryUsage, fit_check
from laneway.lanes.rate_control import RateControl, RateRules
from laneway.lanes.refusal import Refusal, RefusalReason
from laneway.lanes.safety import is_safe, lane_bytes, promised_bytes
from laneway.lanes.seen_memory import SeenMemory
from laneway.lanes.table import Lane, LaneChange, LaneTable, Outcome, Waiting
from laneway.lanes.tenant import LaneRules, Tenant, counted_ephemeral_bytes, counted_persistent_bytes
from laneway.lanes.tenant_use import TenantUse

__all__ = [
    "Lane",
    "LaneChange",
    "LaneRules",
    "LaneTable",
    "MemoryAccount",
    "MemoryUsage",
    "Outcome",
    "RateControl",
    "RateRules",
    "Refusal",
    "RefusalReason",
    "SeenMemory",
    "Tenant",
    "TenantUse",
    "Waiting",
    "counted_ephemeral_bytes",
    "counted_persistent_bytes",
    "fit_check",
    "fits",
    "is_safe",
    "lane_bytes",
    "promised_bytes",
    "refusal",
    "tightest_bytes",
]
