"""All that counts of a GPU's tenants when one more asks, so that asking need not look at each of them again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes.tenant import LaneRules, Tenant, counted_ephemeral_bytes, counted_persistent_bytes


@dataclass(frozen=True, slots=True)
class Crowd:
    """The tenants of a GPU, summed up. Says the same as :func:`laneway.lanes.fits`, in constant time."""

    tenants: int = 0
    exclusive: bool = False
    """One of them has the GPU alone."""

    persistent_bytes: int = 0
    largest_bytes: int = 0
    """Of their ephemerals, the largest."""

    spanning: int = 0
    """Tenants that span GPUs."""

    spanning_bytes: int = 0
    """The ephemerals of those, together."""

    largest_spanning_bytes: int = 0

    @classmethod
    def of(cls, tenants: Iterable[Tenant], rules: LaneRules) -> Crowd:
        """Sum tenants up."""
        crowd = cls()
        for tenant in tenants:
            crowd = crowd.with_one_more(tenant, rules)
        return crowd

    def with_one_more(self, tenant: Tenant, rules: LaneRules) -> Crowd:
        """Return the crowd with one more tenant."""
        ephemeral_bytes = counted_ephemeral_bytes(tenant, rules)
        spans_bytes = ephemeral_bytes if tenant.spans_gpus else 0
        return Crowd(
            self.tenants + 1,
            self.exclusive or tenant.exclusive,
            self.persistent_bytes + counted_persistent_bytes(tenant, rules),
            max(self.largest_bytes, ephemeral_bytes),
            self.spanning + tenant.spans_gpus,
            self.spanning_bytes + spans_bytes,
            max(self.largest_spanning_bytes, spans_bytes),
        )

    @property
    def tightest_bytes(self) -> int:
        """The fewest bytes that the tenants can be packed into (see :func:`laneway.lanes.tightest_bytes`)."""
        return self.persistent_bytes + self.spanning_bytes - self.largest_spanning_bytes + self.largest_bytes

    def takes(self, capacity_bytes: int, newcomer: Tenant, rules: LaneRules) -> bool:
        """Whether the GPU can take one more.

        Args:
            capacity_bytes: the GPU's allocatable bytes.
            newcomer: who asks; none of those that are there.
            rules: padding and lane limit.
        """
        if self.exclusive or (newcomer.exclusive and self.tenants):
            return False
        if newcomer.spans_gpus and 0 < rules.max_lanes <= self.spanning:
            return False
        ephemeral_bytes = counted_ephemeral_bytes(newcomer, rules)
        needed_bytes = self.persistent_bytes + counted_persistent_bytes(newcomer, rules)
        needed_bytes += max(self.largest_bytes, ephemeral_bytes)
        if newcomer.spans_gpus:
            needed_bytes += self.spanning_bytes + ephemeral_bytes
            return needed_bytes - max(self.largest_spanning_bytes, ephemeral_bytes) <= capacity_bytes
        return needed_bytes + self.spanning_bytes - self.largest_spanning_bytes <= capacity_bytes
