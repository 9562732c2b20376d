"""A tenant: one container's hold on one GPU, and how much of its memory counts."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, order=True)
class LaneRules:
    """The rules by which the memory of a GPU is divided into lanes."""

    max_lanes: int = 0
    """Most lanes of one GPU; 0: as many as memory holds. More lanes, more interference between kernels."""

    padding_percent: int = 5
    """Added to measured sizes, because allocators fragment. Salus (MLSys'20, section 3.3) uses 5 to 10."""

    def __post_init__(self) -> None:
        if self.max_lanes < 0:
            raise ValueError(f"max_lanes is {self.max_lanes}: write 0 for no limit, or the number of lanes")
        if self.padding_percent < 0:
            raise ValueError(f"padding_percent is {self.padding_percent}: write 0 or more")


@dataclass(frozen=True, slots=True)
class Tenant:
    """One container's hold on one GPU, as requested and measured."""

    key: str
    quota_bytes: int
    """The memory of its share. It is enforced, so the tenant never counts for more."""

    persistent_bytes: int = 0
    """Measured: kept between iterations (weights, optimizer state, the framework's own). Unused while unprofiled."""

    ephemeral_bytes: int = 0
    """Measured: used beyond that inside an iteration (activations). Unused while unprofiled."""

    profiled: bool = False
    spans_gpus: bool = False
    """Its job uses more than one GPU: of such tenants, a lane takes one (so that no two gangs wait for each other)."""

    exclusive: bool = False
    """It has the GPU alone."""

    resident_bytes: int = 0
    """Seen of it between its turns, by the driver or in its memory account: it counts with this much persistent memory at least."""

    occupied_bytes: int = 0
    """Seen of it, in a turn or not: it counts with this much at least, persistent and ephemeral memory together."""

    def __post_init__(self) -> None:
        for name in (
            "quota_bytes",
            "persistent_bytes",
            "ephemeral_bytes",
            "resident_bytes",
            "occupied_bytes",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} of tenant {self.key} is {getattr(self, name)}: a size is 0 or more")

    def profiled_as(self, persistent_bytes: int, ephemeral_bytes: int) -> Tenant:
        """Return this tenant with the sizes that were measured of it."""
        return replace(
            self, persistent_bytes=persistent_bytes, ephemeral_bytes=ephemeral_bytes, profiled=True
        )


def counted_persistent_bytes(tenant: Tenant, rules: LaneRules) -> int:
    """Return the tenant's persistent bytes, as the safety condition counts them.

    Nothing is known of an unprofiled tenant, so its whole quota counts. A profiled one counts as measured plus padding, or
    as seen if that is more, and never more than its quota.
    """
    if not tenant.profiled:
        return tenant.quota_bytes
    return min(max(_padded(tenant.persistent_bytes, rules), tenant.resident_bytes), tenant.quota_bytes)


def counted_ephemeral_bytes(tenant: Tenant, rules: LaneRules) -> int:
    """Return the tenant's ephemeral bytes, as the safety condition counts them.

    An unprofiled tenant's quota counts as persistent already. A profiled one counts as measured plus padding, or as seen if
    that is more, and never more than what the counted persistent bytes leave of its quota.
    """
    if not tenant.profiled:
        return 0
    persistent_bytes = counted_persistent_bytes(tenant, rules)
    needed_bytes = max(_padded(tenant.ephemeral_bytes, rules), tenant.occupied_bytes - persistent_bytes)
    return min(needed_bytes, tenant.quota_bytes - persistent_bytes)


def _padded(size_bytes: int, rules: LaneRules) -> int:
    return -(-size_bytes * (100 + rules.padding_percent) // 100)
