"""The lane table of one GPU: the lane of each tenant, updated when tenants come, grow or leave.

The table is a value: every change returns a new one, with the list of what changed. Two invariants hold in every returned
table, and are checked before it is returned:

- the safety condition (:mod:`laneway.lanes.safety`);
- a lane has at most one tenant that spans GPUs.

A tenant that has less than the whole GPU keeps no other out: its claim to exclusive use is dropped when it enters the table.

A lane here is an account, not an address range: PyTorch's allocator decides where bytes lie. Moving a tenant to another
lane therefore costs nothing, but means something only at an iteration boundary: **while tenants of one lane hold more
than one turn (two lanes were merged while both were busy), the turn scheduler grants no turn in that lane, and none to a
tenant placed in the same change, until all but one are released.**
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from laneway.lanes.assignment import Bounds, Lanes, merge, place, spread, tightest
from laneway.lanes.fitting import refusal
from laneway.lanes.refusal import Refusal, RefusalReason
from laneway.lanes.safety import lane_bytes, promised_bytes
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
class LaneChange:
    """A tenant is in another lane than before."""

    key: str
    lane_before: int | None
    """None: it was in none (it is new, or waited)."""

    lane: int | None
    """None: it is in none now (it left, or waits)."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A tenant that the GPU cannot admit, or cannot let run, for now."""

    tenant: Tenant
    refusal: Refusal
    holds_memory: bool
    """True: it was in a lane and outgrew it, or was paused there; its persistent memory counts, and it gets no turn. False:
    it was never in a lane; it must not allocate, and only what is seen of it nevertheless counts."""

    paused: bool = False
    """It is kept out of the lanes until :meth:`LaneTable.resume`, even if it would fit."""

    @property
    def counted(self) -> Tenant | None:
        """Return the tenant whose persistent bytes count for it; None if it has no memory."""
        if self.holds_memory:
            return self.tenant
        if not self.tenant.resident_bytes:
            return None
        # Its claim to exclusive use is dropped, so that it does not wait for others that wait for it.
        seen = replace(self.tenant, exclusive=False, occupied_bytes=0)
        return seen.profiled_as(persistent_bytes=0, ephemeral_bytes=0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a change."""

    table: LaneTable
    lane_changes: tuple[LaneChange, ...] = ()
    """All tenants whose lane changed, the changed one included; ordered by key."""

    refusal: Refusal | None = None
    """Why the changed tenant is in no lane; None if it is in one."""

    evict: bool = False
    """The tenant's growth breaks the safety condition even without a lane. The table is unchanged, and the tenant must be
    stopped, because its memory is not covered."""


@dataclass(frozen=True)
class LaneTable:
    """The lanes of one GPU; :meth:`empty` makes one."""

    capacity_bytes: int
    """The GPU's allocatable bytes: its memory less the reserve for frameworks."""

    rules: LaneRules
    lanes: tuple[Lane, ...] = ()
    """Ordered by id."""

    tenants: tuple[Tenant, ...] = ()
    """Those in a lane, ordered by key."""

    waiting: tuple[Waiting, ...] = ()
    """Tenants without a lane, in order of arrival, in which they are retried. Paused tenants are not retried."""

    @classmethod
    def empty(cls, capacity_bytes: int, rules: LaneRules | None = None) -> LaneTable:
        """Return the table of an unused GPU."""
        return cls(capacity_bytes, rules or LaneRules())

    @classmethod
    def restored(
        cls, capacity_bytes: int, rules: LaneRules, lanes: Mapping[int, tuple[Tenant, ...]]
    ) -> LaneTable | None:
        """Return the table with these tenants in the lanes of an earlier table. None if the current capacity or rules do not
        allow it: then admit them one by one.
        """
        kept = {
            number: tuple(_checked(tenant, capacity_bytes) for tenant in tenants)
            for number, tenants in lanes.items()
            if tenants
        }
        if not _allowed(kept, Bounds(capacity_bytes, rules)):
            return None
        return cls.empty(capacity_bytes, rules)._with_lanes(kept, ())

    @property
    def promised_bytes(self) -> int:
        """The left side of the safety condition."""
        return promised_bytes(self._lanes().values(), self.rules, self.without_lane)

    @property
    def without_lane(self) -> tuple[Tenant, ...]:
        """Tenants in no lane, as their persistent bytes count."""
        return _without_lane(self.waiting)

    @property
    def free_bytes(self) -> int:
        """Bytes that are not promised."""
        return self.capacity_bytes - self.promised_bytes

    def lane_of(self, key: str) -> int | None:
        """Return the id of the tenant's lane; None while it waits.

        Raises:
            KeyError: the table does not know the tenant.
        """
        for lane in self.lanes:
            if key in lane.tenants:
                return lane.id
        self._waiting(key)
        return None

    def admit(self, tenant: Tenant, *, holds_memory: bool = False) -> Outcome:
        """Admit a tenant: to a lane of its own, else to an existing lane, else by merging lanes; else it waits.

        Args:
            tenant: the new tenant.
            holds_memory: it is on the GPU already, so its persistent memory counts while it waits. If even that, or what is seen
                of it, is not covered, the outcome says ``evict``, and the tenant is not added.

        Raises:
            ValueError: a tenant of that key is there already.
        """
        if any(tenant.key == other.key for other in (*self.tenants, *(w.tenant for w in self.waiting))):
            raise ValueError(f"tenant {tenant.key} is on this GPU already; profile it, or let it leave first")
        tenant = _checked(tenant, self.capacity_bytes)
        entry = self._entry(tenant, holds_memory=holds_memory)
        waiting = (entry, *self.waiting) if holds_memory else (*self.waiting, entry)
        if entry.counted is not None:
            return self._regrouped(self._lanes(), waiting, entry, lane_before=None)
        return self._outcome(self._lanes(), waiting, tenant.key)

    def profile(self, key: str, persistent_bytes: int, ephemeral_bytes: int) -> Outcome:
        """Record the measurements of a tenant (see :meth:`resize`).

        Raises:
            KeyError: the table does not know the tenant.
        """
        before = self._waiting(key).tenant if self.lane_of(key) is None else self._tenant(key)
        return self.resize(before.profiled_as(persistent_bytes, ephemeral_bytes))

    def resize(self, tenant: Tenant) -> Outcome:
        """Replace a tenant by a changed one: find its lane, and try the waiting tenants again.

        If no lane fits any more, it waits and keeps its memory; if that is not covered, the outcome says ``evict``. A tenant
        that is paused or was never in a lane stays out. What is seen of one that was never in a lane has to be covered, too.

        Raises:
            KeyError: the table knows no tenant of that key.
        """
        tenant = _checked(tenant, self.capacity_bytes)
        number = self.lane_of(tenant.key)
        if number is None:
            entry = replace(self._waiting(tenant.key), tenant=tenant)
            return self._regrouped(self._lanes(), _with(self.waiting, entry), entry, lane_before=None)
        entry = self._entry(tenant, holds_memory=True)
        lanes = _without(self._lanes(), tenant.key)
        return self._regrouped(lanes, (entry, *self.waiting), entry, lane_before=number)

    def leave(self, key: str) -> Outcome:
        """Remove a tenant, try the waiting ones again, and split or defragment shared lanes where memory allows.

        Raises:
            KeyError: the table does not know the tenant.
        """
        if self.lane_of(key) is None:
            return self._outcome(self._lanes(), tuple(w for w in self.waiting if w.tenant.key != key), key)
        return self._outcome(_without(self._lanes(), key), self.waiting, key)

    def pause(self, key: str) -> Outcome:
        """Pause a tenant: take it out of its lane, keep it out, and try the waiting tenants again.

        Its persistent memory still counts; its ephemeral memory does not, because it runs no iterations. A waiting tenant
        keeps waiting and keeps its memory.

        Raises:
            KeyError: the table does not know the tenant.
        """
        if self.lane_of(key) is None:
            entry = replace(self._waiting(key), paused=True, refusal=_paused())
            return self._outcome(self._lanes(), _with(self.waiting, entry), key)
        entry = Waiting(self._tenant(key), _paused(), holds_memory=True, paused=True)
        return self._outcome(_without(self._lanes(), key), (entry, *self.waiting), key)

    def resume(self, key: str) -> Outcome:
        """Resume a paused tenant in a lane. If memory is short, it waits for one and keeps its memory. A tenant that is not
        paused does not change.

        Raises:
            KeyError: the table does not know the tenant.
        """
        if self.lane_of(key) is not None:
            return Outcome(self)
        entry = replace(self._waiting(key), paused=False)
        return self._outcome(self._lanes(), _with(self.waiting, entry), key)

    def _regrouped(
        self, lanes: Lanes, waiting: tuple[Waiting, ...], entry: Waiting, *, lane_before: int | None
    ) -> Outcome:
        """Find a lane for a tenant whose sizes changed; else let it wait with its memory, or report that it must be evicted."""
        tenant = entry.tenant
        others = tuple(other for other in waiting if other is not entry)
        bounds = Bounds(self.capacity_bytes, self.rules, _without_lane(others))
        placed = None if entry.paused else self._place(entry, lanes, bounds, lane_before)
        if placed is not None:
            return self._outcome(placed, others, tenant.key)
        counted = () if entry.counted is None else (entry.counted,)
        beside = Bounds(self.capacity_bytes, self.rules, (*bounds.without_lane, *counted))
        kept = lanes if beside.hold(lanes) else merge(lanes, beside) or tightest(lanes, beside)
        if kept is None:
            refused = entry.tenant if entry.holds_memory else (entry.counted or tenant)
            return Outcome(self, refusal=self._why(refused, lanes, bounds.without_lane), evict=True)
        return self._outcome(kept, waiting, tenant.key)

    def _outcome(self, lanes: Lanes, waiting: tuple[Waiting, ...], key: str) -> Outcome:
        """Try the waiting tenants, spread shared lanes, and return all changes."""
        lanes, waiting = self._retried(lanes, waiting)
        bounds = Bounds(self.capacity_bytes, self.rules, _without_lane(waiting))
        lanes = spread(lanes, bounds)
        if not _allowed(lanes, bounds):
            raise AssertionError(
                f"lanes {lanes} break an invariant of a GPU with {self.capacity_bytes} bytes"
            )
        table = self._with_lanes(lanes, waiting)
        refusal = next((entry.refusal for entry in waiting if entry.tenant.key == key), None)
        return Outcome(table, _moves(self, table), refusal)

    def _with_lanes(self, lanes: Lanes, waiting: tuple[Waiting, ...]) -> LaneTable:
        return LaneTable(
            self.capacity_bytes,
            self.rules,
            lanes=tuple(
                Lane(number, tuple(tenant.key for tenant in tenants), lane_bytes(tenants, self.rules))
                for number, tenants in sorted(lanes.items())
            ),
            tenants=tuple(sorted((t for lane in lanes.values() for t in lane), key=lambda t: t.key)),
            waiting=waiting,
        )

    def _retried(self, lanes: Lanes, waiting: tuple[Waiting, ...]) -> tuple[Lanes, tuple[Waiting, ...]]:
        """Admit the waiting tenants that now fit: first those that hold memory, then in order of arrival."""
        remaining = list(waiting)
        for entry in sorted(waiting, key=lambda entry: not entry.holds_memory):
            if entry.paused:
                continue
            others = [other for other in remaining if other is not entry]
            bounds = Bounds(self.capacity_bytes, self.rules, _without_lane(others))
            placed = self._place(entry, lanes, bounds, None)
            if placed is not None:
                lanes, remaining = placed, others
        return lanes, tuple(
            entry
            if entry.paused
            else replace(entry, refusal=self._why(entry.tenant, lanes, _without_lane(remaining, but=entry)))
            for entry in remaining
        )

    def _place(self, entry: Waiting, lanes: Lanes, bounds: Bounds, lane_before: int | None) -> Lanes | None:
        others = [tenant for lane in lanes.values() for tenant in lane]
        if not entry.holds_memory:
            # A tenant that holds memory is not kept out by one that waits for exclusive use: they would wait for each other.
            others += bounds.without_lane
        if any(other.exclusive for other in others) or (entry.tenant.exclusive and others):
            return None
        return place(entry.tenant, lanes, bounds, lane_before)

    def _why(self, tenant: Tenant, lanes: Lanes, without_lane: tuple[Tenant, ...]) -> Refusal:
        held = (replace(other, ephemeral_bytes=0) for other in without_lane)
        others = (*held, *(other for lane in lanes.values() for other in lane))
        why = refusal(self.capacity_bytes, others, tenant, self.rules)
        if why is None:
            raise AssertionError(f"{tenant.key} fits beside {others} and was not placed")
        return why

    def _entry(self, tenant: Tenant, *, holds_memory: bool = False) -> Waiting:
        """Make an entry; its reason is set once it has been tried."""
        return Waiting(tenant, Refusal(RefusalReason.INSUFFICIENT_MEMORY, ""), holds_memory)

    def _lanes(self) -> Lanes:
        tenants = {tenant.key: tenant for tenant in self.tenants}
        return {lane.id: tuple(tenants[key] for key in lane.tenants) for lane in self.lanes}

    def _tenant(self, key: str) -> Tenant:
        return next(tenant for tenant in self.tenants if tenant.key == key)

    def _waiting(self, key: str) -> Waiting:
        for entry in self.waiting:
            if entry.tenant.key == key:
                return entry
        raise KeyError(key)


def _checked(tenant: Tenant, capacity_bytes: int) -> Tenant:
    """Return a tenant without its claim to exclusive use, unless the whole GPU is its own."""
    if tenant.exclusive and tenant.quota_bytes < capacity_bytes:
        return replace(tenant, exclusive=False)
    return tenant


def _without_lane(waiting: Iterable[Waiting], but: Waiting | None = None) -> tuple[Tenant, ...]:
    return tuple(entry.counted for entry in waiting if entry.counted is not None and entry is not but)


def _allowed(lanes: Lanes, bounds: Bounds) -> bool:
    return bounds.hold(lanes) and all(sum(t.spans_gpus for t in lane) <= 1 for lane in lanes.values())


def _with(waiting: tuple[Waiting, ...], changed: Waiting) -> tuple[Waiting, ...]:
    """Return the waiting tenants with one of them replaced."""
    return tuple(changed if entry.tenant.key == changed.tenant.key else entry for entry in waiting)


def _paused() -> Refusal:
    return Refusal(RefusalReason.PAUSED, "it is paused")


def _without(lanes: Lanes, key: str) -> Lanes:
    """Return the lanes without a tenant, and without the lane that it leaves empty."""
    rest = {number: tuple(t for t in tenants if t.key != key) for number, tenants in lanes.items()}
    return {number: tenants for number, tenants in rest.items() if tenants}


def _moves(before: LaneTable, after: LaneTable) -> tuple[LaneChange, ...]:
    lane_before = {key: lane.id for lane in before.lanes for key in lane.tenants}
    lane_after = {key: lane.id for lane in after.lanes for key in lane.tenants}
    return tuple(
        LaneChange(key, lane_before.get(key), lane_after.get(key))
        for key in sorted(lane_before.keys() | lane_after.keys())
        if lane_before.get(key) != lane_after.get(key)
    )
