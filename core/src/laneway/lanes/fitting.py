"""Does this tenant fit that GPU, beside those that are there? Asked by the planner and by the agent.

What counts is the tightest packing: merging lanes moves no memory, so a tenant fits if and only if it fits when all
lanes are merged as far as may be.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.lanes.refusal import Refusal
from laneway.lanes.tenant import LaneRules, Tenant


def tightest_bytes(tenants: Iterable[Tenant], rules: LaneRules) -> int:
    """Return the fewest bytes that the tenants can be packed into, whatever the lanes.

    Tenants that span GPUs need a lane each; all others can take turns in the largest of these. So the ephemeral region
    is at least the sum of the spanning tenants' ephemerals, with the largest of them raised to the largest of all.
    """
    raise NotImplementedError


def refusal(
    capacity_bytes: int, tenants: Iterable[Tenant], newcomer: Tenant, rules: LaneRules
) -> Refusal | None:
    """Return why a newcomer does not fit a GPU beside its tenants, or None where it fits.

    Args:
        capacity_bytes: the GPU's allocatable bytes: its memory less the reserve for frameworks.
        tenants: those that are there; the condition is taken to hold for them.
        newcomer: who asks; its key is in none of them.
        rules: padding and lane limit.
    """
    raise NotImplementedError


def fits(capacity_bytes: int, tenants: Iterable[Tenant], newcomer: Tenant, rules: LaneRules) -> bool:
    """Whether a newcomer fits a GPU beside its tenants (see :func:`refusal`)."""
    return refusal(capacity_bytes, tenants, newcomer, rules) is None
