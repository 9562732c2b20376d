"""Chooses a tenant's lane: one of its own, else the lane that grows least, else merged lanes (Salus, algorithm 1).

Works on bare values: lanes by id, each a tuple of tenants in order of entry. :mod:`laneway.lanes.table` keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from laneway.lanes.safety import is_safe, lane_bytes, promised_bytes
from laneway.lanes.tenant import LaneRules, Tenant, counted_ephemeral_bytes

Lanes = Mapping[int, tuple[Tenant, ...]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of the lanes: capacity, rules, and memory held outside of lanes."""

    capacity_bytes: int
    rules: LaneRules
    without_lane: tuple[Tenant, ...] = ()
    """Tenants that hold persistent memory and are in no lane."""

    def hold(self, lanes: Lanes) -> bool:
        """Whether the lanes are safe, and no more than the limit."""
        return self.allow(len(lanes)) and is_safe(
            self.capacity_bytes, lanes.values(), self.rules, self.without_lane
        )

    def allow(self, lane_count: int) -> bool:
        """Whether this number of lanes is within the limit."""
        return not self.rules.max_lanes or lane_count <= self.rules.max_lanes

    def lacking_bytes(self, lanes: Lanes) -> int:
        """Return by how much the lanes are over capacity; 0 if they are not."""
        return max(0, promised_bytes(lanes.values(), self.rules, self.without_lane) - self.capacity_bytes)


def place(tenant: Tenant, lanes: Lanes, bounds: Bounds, lane_before: int | None = None) -> Lanes | None:
    """Return the lanes with one more tenant; None if it fits nowhere.

    An unprofiled tenant gets a lane that it does not share, unless the lane limit requires it. Sharing is safe, because its
    whole share counts as persistent.

    Args:
        tenant: the new tenant, in none of the lanes.
        lanes: the others'.
        bounds: capacity, rules, and what else is held.
        lane_before: the lane that it was in; kept if it is as good as any other.
    """
    own = lane_before if lane_before is not None and lane_before not in lanes else _lowest_free(lanes)
    alone = {**lanes, own: (tenant,)}
    if bounds.hold(alone):
        return alone
    joined = _join(tenant, _all_profiled(lanes), lanes, bounds, lane_before) if tenant.profiled else None
    if joined is not None:
        return joined
    return (
        merge(alone, bounds, newest=own)
        or _join(tenant, lanes, lanes, bounds, lane_before)
        or tightest(alone, bounds)
    )


def merge(lanes: Lanes, bounds: Bounds, newest: int | None = None) -> Lanes | None:
    """Merge pairs of lanes of profiled tenants until the bounds hold; None if they never do.

    Merging two lanes frees the smaller one's ephemeral bytes. Of the merges that suffice alone, the one that frees least is
    taken. If none suffices, the one that frees most is done, and the search repeats.

    Args:
        lanes: what to start from.
        bounds: capacity, rules, and what else is held.
        newest: a lane whose id need not survive.
    """
    merged = dict(lanes)
    while not bounds.hold(merged):
        best: tuple[tuple[bool, int, int, int, int], int, int] | None = None
        lacking_bytes = bounds.lacking_bytes(merged)
        for first, second in combinations(sorted(_all_profiled(merged)), 2):
            if _spanning(merged[first]) + _spanning(merged[second]) > 1:
                continue
            sizes = [lane_bytes(merged[number], bounds.rules) for number in (first, second)]
            freed_bytes = min(sizes)
            enough = freed_bytes >= lacking_bytes and bounds.allow(len(merged) - 1)
            crowd = len(merged[first]) + len(merged[second])
            cost = (not enough, freed_bytes if enough else -freed_bytes, crowd, first, second)
            if best is None or cost < best[0]:
                stays, goes = (first, second) if sizes[0] >= sizes[1] else (second, first)
                best = (cost, *((goes, stays) if stays == newest else (stays, goes)))
        if best is None:
            return None
        _, stays, goes = best
        merged[stays] = merged[stays] + merged.pop(goes)
    return merged


def tightest(lanes: Lanes, bounds: Bounds) -> Lanes | None:
    """Return the packing that takes the least memory and the fewest lanes; None if not even that is within bounds.

    Each tenant that spans GPUs keeps a lane, and all others take turns in the largest of these.
    :func:`laneway.lanes.fitting.tightest_bytes` counts the same packing, so a tenant that fits there finds its place here.
    """
    packed = {
        number: tuple(tenant for tenant in tenants if tenant.spans_gpus)
        for number, tenants in lanes.items()
        if _spanning(tenants)
    }
    candidates = packed or lanes
    roomiest = min(
        candidates, key=lambda number: (-lane_bytes(candidates[number], bounds.rules), number), default=0
    )
    others = tuple(tenant for tenants in lanes.values() for tenant in tenants if not tenant.spans_gpus)
    if others:
        packed[roomiest] = (*packed.get(roomiest, ()), *others)
    return packed if bounds.hold(packed) else None


def split(lanes: Lanes, bounds: Bounds) -> Lanes:
    """Move tenants out of shared lanes into lanes of their own while memory and the lane limit allow.

    The cheapest move comes first: unprofiled tenants, then the tenant whose own lane needs the least additional memory; on a
    tie, the last to enter.
    """
    current = dict(lanes)
    while bounds.allow(len(current) + 1):
        free_bytes = bounds.capacity_bytes - promised_bytes(
            current.values(), bounds.rules, bounds.without_lane
        )
        best: tuple[tuple[bool, int, int, str], int, Tenant] | None = None
        for number, tenants in current.items():
            if len(tenants) < 2:
                continue
            second_bytes, largest_bytes = _two_largest(tenants, bounds.rules)
            for place_in_lane, tenant in enumerate(tenants):
                own_bytes = counted_ephemeral_bytes(tenant, bounds.rules)
                left_bytes = second_bytes if own_bytes == largest_bytes else largest_bytes
                growth_bytes = own_bytes + left_bytes - largest_bytes
                cost = (tenant.profiled, growth_bytes, -place_in_lane, tenant.key)
                if growth_bytes <= free_bytes and (best is None or cost < best[0]):
                    best = (cost, number, tenant)
        if best is None:
            break
        _, number, tenant = best
        current[number] = _but(current[number], tenant)
        current[_lowest_free(current)] = (tenant,)
    return current


def spread(lanes: Lanes, bounds: Bounds) -> Lanes:
    """Return the lanes with as many tenants alone as possible: split, and if no split fits, defragmented and split again.
    Tenants change lanes only if one more gets its own lane, because a move costs a boundary.
    """
    current = split(lanes, bounds)
    while bounds.allow(len(current) + 1):
        after = split(_defragmented(current, bounds), bounds)
        if len(after) <= len(current):
            return current
        current = after
    return current


def _defragmented(lanes: Lanes, bounds: Bounds) -> Lanes:
    """Return the lanes with large ephemerals grouped, if that frees memory.

    A shared lane shrinks when its largest tenant moves to a lane that need not grow for it. The move that frees most comes
    first. Each move reduces the total size of the lanes, so the search ends.
    """
    current = dict(lanes)
    while True:
        sizes = {number: lane_bytes(tenants, bounds.rules) for number, tenants in current.items()}
        best: tuple[tuple[int, int, str, int], int, Tenant] | None = None
        for number, tenants in current.items():
            if len(tenants) < 2:
                continue
            second_bytes, largest_bytes = _two_largest(tenants, bounds.rules)
            if second_bytes == largest_bytes:
                continue
            tenant = max(tenants, key=lambda each: counted_ephemeral_bytes(each, bounds.rules))
            for target, mates in current.items():
                roomy = target != number and sizes[target] >= largest_bytes
                if not roomy or (tenant.spans_gpus and _spanning(mates)):
                    continue
                cost = (second_bytes - largest_bytes, len(mates), tenant.key, target)
                if best is None or cost < best[0]:
                    best = (cost, number, tenant)
        if best is None:
            return current
        (_, _, _, target), number, tenant = best
        current[number] = _but(current[number], tenant)
        current[target] = (*current[target], tenant)


def _join(
    tenant: Tenant, candidates: Iterable[int], lanes: Lanes, bounds: Bounds, lane_before: int | None
) -> Lanes | None:
    """Return the lanes with the tenant in the candidate that grows least; None if none can take it."""
    best: tuple[tuple[int, bool, int, int], Lanes] | None = None
    for number in sorted(candidates):
        if tenant.spans_gpus and _spanning(lanes[number]):
            continue
        joined = {**lanes, number: (*lanes[number], tenant)}
        if not bounds.hold(joined):
            continue
        promised = promised_bytes(joined.values(), bounds.rules)
        cost = (promised, number != lane_before, len(lanes[number]), number)
        if best is None or cost < best[0]:
            best = (cost, joined)
    return None if best is None else best[1]


def _all_profiled(lanes: Lanes) -> frozenset[int]:
    return frozenset(
        number for number, tenants in lanes.items() if all(tenant.profiled for tenant in tenants)
    )


def _two_largest(tenants: Iterable[Tenant], rules: LaneRules) -> tuple[int, int]:
    """Return the second largest and the largest ephemeral of two tenants or more."""
    second_bytes, largest_bytes = sorted(counted_ephemeral_bytes(tenant, rules) for tenant in tenants)[-2:]
    return second_bytes, largest_bytes


def _but(tenants: Iterable[Tenant], one: Tenant) -> tuple[Tenant, ...]:
    return tuple(tenant for tenant in tenants if tenant is not one)


def _spanning(tenants: Iterable[Tenant]) -> int:
    return sum(tenant.spans_gpus for tenant in tenants)


def _lowest_free(lanes: Lanes) -> int:
    return next(number for number in range(len(lanes) + 1) if number not in lanes)
