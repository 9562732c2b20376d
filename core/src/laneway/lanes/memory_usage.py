"""The memory of a GPU's tenants, summed up, so that one more tenant is checked in constant time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from laneway.lanes.tenant import LaneRules, Tenant, counted_ephemeral_bytes, counted_persistent_bytes


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """The tenants of a GPU, summed up. :meth:`fits` is equal to :func:`laneway.lanes.fits`, in constant time."""

    tenants: int = 0
    unprofiled: int = 0
    """Tenants that count with their whole quota until they are profiled."""

    exclusive: bool = False
    """One of them holds the GPU exclusively."""

    persistent_bytes: int = 0
    largest_bytes: int = 0
    """The largest of their ephemerals."""

    spanning: int = 0
    """Tenants that span GPUs."""

    spanning_bytes: int = 0
    """The sum of their ephemerals."""

    largest_spanning_bytes: int = 0

    @classmethod
    def of(cls, tenants: Iterable[Tenant], rules: LaneRules) -> MemoryUsage:
        """Sum tenants up."""
        usage = cls()
        for tenant in tenants:
            usage = usage.plus(tenant, rules)
        return usage

    def plus(self, tenant: Tenant, rules: LaneRules) -> MemoryUsage:
        """Return the usage with one more tenant."""
        ephemeral_bytes = counted_ephemeral_bytes(tenant, rules)
        spans_bytes = ephemeral_bytes if tenant.spans_gpus else 0
        return MemoryUsage(
            self.tenants + 1,
            self.unprofiled + (not tenant.profiled),
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

    def fits(self, capacity_bytes: int, newcomer: Tenant, rules: LaneRules) -> bool:
        """Whether the GPU can take one more.

        Args:
            capacity_bytes: the GPU's allocatable bytes.
            newcomer: the tenant to add; not one of the present ones.
            rules: padding and lane limit.
        """
        return fit_check(capacity_bytes, newcomer, rules)(self)


def fit_check(capacity_bytes: int, newcomer: Tenant, rules: LaneRules) -> Callable[[MemoryUsage], bool]:
    """Return :meth:`MemoryUsage.fits` for one newcomer and many alike GPUs: its memory is counted once."""
    ephemeral_bytes = counted_ephemeral_bytes(newcomer, rules)
    left_bytes = capacity_bytes - counted_persistent_bytes(newcomer, rules)
    exclusive, spans = newcomer.exclusive, newcomer.spans_gpus
    most_spanning = rules.max_lanes if spans and rules.max_lanes else math.inf

    def fits(usage: MemoryUsage) -> bool:
        if usage.exclusive or (exclusive and usage.tenants) or usage.spanning >= most_spanning:
            return False
        needed_bytes = usage.persistent_bytes + usage.spanning_bytes
        needed_bytes += max(usage.largest_bytes, ephemeral_bytes)
        if spans:
            needed_bytes += ephemeral_bytes - max(usage.largest_spanning_bytes, ephemeral_bytes)
        else:
            needed_bytes -= usage.largest_spanning_bytes
        return needed_bytes <= left_bytes

    return fits
