"""The lane table of one GPU: who is in which lane, and how that changes when somebody comes, grows or leaves.

The table is a value: every change returns a new one, with the list of what changed. Two invariants hold in every table
that comes out of here, and are checked on the way out:

- the safety condition (:mod:`laneway.lanes.safety`);
- a lane has at most one tenant that spans GPUs.

A lane here is an account, not an address range: PyTorch's allocator decides where bytes lie. Moving a tenant to another
lane therefore costs nothing, but means something only at an iteration boundary: **while tenants of one lane hold more
than one turn (two lanes were merged while both were busy), whoever grants turns gives no turn in that lane, and none to
a tenant placed in the same change, until all but one are released.**
"""

from __future__ import annotations

from dataclasses import dataclass

from laneway.lanes.refusal import Refusal
from laneway.lanes.tenant import LaneRules, Tenant


@dataclass(frozen=True, slots=True)
class Lane:
    """Tenants that take turns."""

    id: int
    """Unique in the table; the lowest free number when the lane was created."""

    tenants: tuple[str, ...]
    """Keys, in order of entry."""

    ephemeral_bytes: int
    """The lane's size: the largest counted ephemeral of its tenants."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A tenant is in another lane than before."""

    key: str
    lane_before: int | None
    """None: it was in none (it is new, waited or was parked)."""

    lane: int | None
    """None: it is in none now (it left, waits or is parked)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A tenant that the GPU cannot take, or cannot let run, for now."""

    tenant: Tenant
    refusal: Refusal
    parked: bool
    """True: it was in a lane and outgrew it; its persistent memory is held, counts, and it gets no turn.
    False: it was never in; nothing of it counts, and it must not allocate."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a change led to."""

    table: LaneTable
    moved: tuple[Moved, ...] = ()
    """All tenants whose lane changed, others than the one that the change was about included; ordered by key."""

    refusal: Refusal | None = None
    """Set when the tenant that the change was about is in no lane now."""

    evict: bool = False
    """The tenant's growth breaks the safety condition even if it is parked: the table is as before the change, and the
    tenant has to be stopped, because its memory is not covered."""


@dataclass(frozen=True)
class LaneTable:
    """The lanes of one GPU. Make one with :meth:`empty`."""

    capacity_bytes: int
    """The GPU's allocatable bytes: its memory less the reserve for frameworks."""

    rules: LaneRules
    lanes: tuple[Lane, ...] = ()
    """Ordered by id."""

    tenants: tuple[Tenant, ...] = ()
    """Those in a lane, ordered by key."""

    waiting: tuple[Waiting, ...] = ()
    """Those in none, in the order in which they came: the order in which they are tried again."""

    @classmethod
    def empty(cls, capacity_bytes: int, rules: LaneRules | None = None) -> LaneTable:
        """Return the table of a GPU that nobody uses."""
        return cls(capacity_bytes, rules or LaneRules())

    @property
    def promised_bytes(self) -> int:
        """The left side of the safety condition."""
        raise NotImplementedError

    @property
    def free_bytes(self) -> int:
        """What is promised to nobody."""
        return self.capacity_bytes - self.promised_bytes

    def lane_of(self, key: str) -> int | None:
        """Return the id of the tenant's lane; None while it waits.

        Raises:
            KeyError: the table does not know the tenant.
        """
        raise NotImplementedError

    def admit(self, tenant: Tenant) -> Outcome:
        """Let a tenant in: into a lane of its own, else into an existing lane, else by merging lanes; else it waits.

        Raises:
            ValueError: a tenant of that key is there already.
        """
        raise NotImplementedError

    def profile(self, key: str, persistent_bytes: int, ephemeral_bytes: int) -> Outcome:
        """Take note of what was measured of a tenant, find it the right lane, and try again those that wait.

        Raises:
            KeyError: the table does not know the tenant.
        """
        raise NotImplementedError

    def leave(self, key: str) -> Outcome:
        """Let a tenant go, try again those that wait, and split crowded lanes where memory allows.

        Raises:
            KeyError: the table does not know the tenant.
        """
        raise NotImplementedError
