"""The safety condition, in one place: the agent's lane table, the scheduler and the check of decisions all call it.

Per GPU: the sum of the persistent bytes of its tenants, plus the sum over its lanes of the largest ephemeral in that
lane, is at most its allocatable bytes (Salus, MLSys'20, section 3.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.lanes.tenant import LaneRules, Tenant, counted_ephemeral_bytes, counted_persistent_bytes


def lane_bytes(tenants: Iterable[Tenant], rules: LaneRules) -> int:
    """Return the size of a lane: the largest ephemeral of the tenants that take turns in it."""
    return max((counted_ephemeral_bytes(tenant, rules) for tenant in tenants), default=0)


def promised_bytes(
    lanes: Iterable[Iterable[Tenant]], rules: LaneRules, without_lane: Iterable[Tenant] = ()
) -> int:
    """Return the left side of the safety condition.

    Args:
        lanes: the tenants of each lane.
        rules: the padding.
        without_lane: tenants that hold persistent memory and are in no lane, so that they run no iteration.
    """
    total_bytes = sum(counted_persistent_bytes(tenant, rules) for tenant in without_lane)
    for lane in lanes:
        tenants = tuple(lane)
        total_bytes += sum(counted_persistent_bytes(tenant, rules) for tenant in tenants)
        total_bytes += lane_bytes(tenants, rules)
    return total_bytes


def is_safe(
    capacity_bytes: int,
    lanes: Iterable[Iterable[Tenant]],
    rules: LaneRules,
    without_lane: Iterable[Tenant] = (),
) -> bool:
    """Whether the safety condition holds."""
    return promised_bytes(lanes, rules, without_lane) <= capacity_bytes
