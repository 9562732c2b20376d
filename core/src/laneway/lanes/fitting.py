"""Tells whether a tenant fits a GPU beside its other tenants; the scheduler and the agent ask.

The tightest packing counts: merging lanes moves no memory, so a tenant fits if and only if it fits when all lanes are merged
as far as possible.
"""

from __future__ import annotations

from collections.abc import Iterable

from laneway.api.job_names import JobSentence
from laneway.api.quantity import format_bytes
from laneway.lanes.refusal import Refusal, RefusalReason
from laneway.lanes.tenant import LaneRules, Tenant, counted_ephemeral_bytes, counted_persistent_bytes


def tightest_bytes(tenants: Iterable[Tenant], rules: LaneRules) -> int:
    """Return the fewest bytes that the tenants can be packed into, in any lanes.

    Tenants that span GPUs need a lane each; all others can take turns in the largest of these. So the ephemeral region is
    at least the sum of the spanning tenants' ephemerals, where the largest of them is raised to the largest of all.
    """
    persistent_bytes = 0
    largest_bytes = 0
    spanning: list[int] = []
    for tenant in tenants:
        persistent_bytes += counted_persistent_bytes(tenant, rules)
        ephemeral_bytes = counted_ephemeral_bytes(tenant, rules)
        largest_bytes = max(largest_bytes, ephemeral_bytes)
        if tenant.spans_gpus:
            spanning.append(ephemeral_bytes)
    if not spanning:
        return persistent_bytes + largest_bytes
    return persistent_bytes + sum(spanning) - max(spanning) + largest_bytes


def refusal(
    capacity_bytes: int, tenants: Iterable[Tenant], newcomer: Tenant, rules: LaneRules
) -> Refusal | None:
    """Return why a newcomer does not fit a GPU beside its tenants, or None where it fits.

    Args:
        capacity_bytes: the GPU's allocatable bytes: its memory less the reserve for frameworks.
        tenants: the present ones, which meet the condition.
        newcomer: the tenant to add; none of the others has its key.
        rules: padding and lane limit.
    """
    present = tuple(tenants)
    return (
        _refusal_alone(capacity_bytes, newcomer, rules)
        or _refusal_by_exclusiveness(present, newcomer)
        or _refusal_by_lane_limit(present, newcomer, rules)
        or _refusal_by_memory(capacity_bytes, present, newcomer, rules)
    )


def fits(capacity_bytes: int, tenants: Iterable[Tenant], newcomer: Tenant, rules: LaneRules) -> bool:
    """Whether a newcomer fits a GPU beside its tenants (see :func:`refusal`)."""
    return refusal(capacity_bytes, tenants, newcomer, rules) is None


def _refusal_alone(capacity_bytes: int, newcomer: Tenant, rules: LaneRules) -> Refusal | None:
    needed_bytes = tightest_bytes((newcomer,), rules)
    if needed_bytes <= capacity_bytes:
        return None
    return Refusal(
        RefusalReason.LARGER_THAN_GPU,
        f"it needs {format_bytes(needed_bytes)} and the GPU has {format_bytes(capacity_bytes)} for jobs",
        lacking_bytes=needed_bytes - capacity_bytes,
    )


def _refusal_by_exclusiveness(present: tuple[Tenant, ...], newcomer: Tenant) -> Refusal | None:
    holders = tuple(sorted(tenant.key for tenant in present if tenant.exclusive))
    if holders:
        return Refusal(
            RefusalReason.HELD_EXCLUSIVELY,
            JobSentence("", holders, " holds the GPU exclusively"),
            blockers=holders,
        )
    if newcomer.exclusive and present:
        others = tuple(sorted(tenant.key for tenant in present))
        return Refusal(
            RefusalReason.NOT_EMPTY,
            JobSentence(
                "it needs the GPU exclusively, and ", others, f" {'uses' if len(others) == 1 else 'use'} it"
            ),
            blockers=others,
        )
    return None


def _refusal_by_lane_limit(present: tuple[Tenant, ...], newcomer: Tenant, rules: LaneRules) -> Refusal | None:
    if not (newcomer.spans_gpus and rules.max_lanes):
        return None
    spanning = tuple(sorted(tenant.key for tenant in present if tenant.spans_gpus))
    if len(spanning) < rules.max_lanes:
        return None
    return Refusal(
        RefusalReason.LANE_LIMIT,
        JobSentence(
            f"jobs on several GPUs need a lane each, and the GPU's {rules.max_lanes} "
            f"{'lane is' if rules.max_lanes == 1 else 'lanes are'} taken by ",
            spanning,
            "",
        ),
        blockers=spanning,
    )


def _refusal_by_memory(
    capacity_bytes: int, present: tuple[Tenant, ...], newcomer: Tenant, rules: LaneRules
) -> Refusal | None:
    lacking_bytes = tightest_bytes((*present, newcomer), rules) - capacity_bytes
    if lacking_bytes <= 0:
        return None
    profiled = tuple(tenant for tenant in present if tenant.profiled)
    if tightest_bytes((*profiled, newcomer), rules) <= capacity_bytes:
        unprofiled = tuple(sorted(tenant.key for tenant in present if not tenant.profiled))
        return Refusal(
            RefusalReason.AWAITING_PROFILE,
            JobSentence(
                f"it needs {format_bytes(lacking_bytes)} more memory: ",
                unprofiled,
                f" {'counts' if len(unprofiled) == 1 else 'count'} with the full share until profiled",
            ),
            lacking_bytes=lacking_bytes,
            blockers=unprofiled,
        )
    return Refusal(
        RefusalReason.INSUFFICIENT_MEMORY,
        f"it needs {format_bytes(lacking_bytes)} more memory, even if the GPU's lanes are merged",
        lacking_bytes=lacking_bytes,
        blockers=tuple(sorted(tenant.key for tenant in present)),
    )
