"""Short builders of tenants; sizes are in whole bytes, so that the numbers in a test are easy to add."""

from __future__ import annotations

from laneway.lanes import LaneRules, LaneTable, Outcome, SeenMemory, Tenant

EXACT = LaneRules(padding_percent=0)


NOTHING_SEEN = SeenMemory()


def unknown(
    key: str, quota: int, *, spans: bool = False, exclusive: bool = False, seen: SeenMemory = NOTHING_SEEN
) -> Tenant:
    """A tenant that was not profiled yet."""
    return Tenant(
        key,
        quota,
        spans_gpus=spans,
        exclusive=exclusive,
        resident_bytes=seen.resident_bytes,
        occupied_bytes=seen.occupied_bytes,
    )


def known(
    key: str,
    persistent: int,
    ephemeral: int,
    *,
    quota: int | None = None,
    spans: bool = False,
    seen: SeenMemory = NOTHING_SEEN,
) -> Tenant:
    """A profiled tenant; its quota is exactly its need unless given."""
    return Tenant(
        key,
        persistent + ephemeral if quota is None else quota,
        persistent_bytes=persistent,
        ephemeral_bytes=ephemeral,
        profiled=True,
        spans_gpus=spans,
        resident_bytes=seen.resident_bytes,
        occupied_bytes=seen.occupied_bytes,
    )


def table_of(capacity: int, *tenants: Tenant, max_lanes: int = 0, padding: int = 0) -> LaneTable:
    """The table after these tenants came, in this order."""
    table = LaneTable.empty(capacity, LaneRules(max_lanes, padding))
    for tenant in tenants:
        table = table.admit(tenant).table
    return table


def lanes(subject: LaneTable | Outcome) -> list[str]:
    """The lanes as text, ordered: ``["ab", "c"]`` says that a and b share a lane."""
    table = subject.table if isinstance(subject, Outcome) else subject
    return sorted("".join(sorted(lane.tenants)) for lane in table.lanes)
