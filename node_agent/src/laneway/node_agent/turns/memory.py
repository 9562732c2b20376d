"""The lane table of one GPU and the leases in it: each lease's lane, why it has none, and whether a turn
fits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from laneway.api.job_names import sentence_for, within
from laneway.lanes import (
    Lane,
    LaneRules,
    LaneTable,
    Outcome,
    Refusal,
    SeenMemory,
    Tenant,
    counted_ephemeral_bytes,
    counted_persistent_bytes,
)
from laneway.node_agent.turns.counting import counted_sizes
from laneway.node_agent.turns.lease import Lease
from laneway.node_agent.turns.pending_releases import PendingRelease


class LaneMemory:
    """Maintains the lane table and records leases whose growth it could not cover."""

    def __init__(self, capacity_bytes: int, rules: LaneRules) -> None:
        self.table = LaneTable.empty(capacity_bytes, rules)
        self._leases: dict[str, Lease] = {}
        self._lane_of: dict[str, int] = {}
        self._memory_lane_of: dict[str, int] = {}
        self._members: dict[int, tuple[Lease, ...]] = {}
        self._sharing_turns: frozenset[int] = frozenset()

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Return the lanes, ordered by id."""
        return self.table.lanes

    def lane_of(self, lease: Lease) -> int | None:
        """Return the lane whose turn the lease needs; None if it has none. Lanes that take turns go by the
        first of them."""
        return self._lane_of.get(lease.key)

    def memory_lane_of(self, lease: Lease) -> int | None:
        """Return the lane that the lease's ephemeral memory counts in; None if it has none."""
        return self._memory_lane_of.get(lease.key)

    @property
    def lanes_by_key(self) -> Mapping[str, int]:
        """Return the lane of each lease that has one, by its key."""
        return self._lane_of

    def lease(self, key: str) -> Lease:
        """Return the lease of a tenant of the table."""
        return self._leases[key]

    def members(self, lane: int) -> tuple[Lease, ...]:
        """Return the leases that need a lane's turn."""
        return self._members.get(lane, ())

    @property
    def sharing_turns(self) -> frozenset[int]:
        """Return the lanes that take turns as one; empty if all run in parallel."""
        return self._sharing_turns

    def share_turns(self, lanes: frozenset[int]) -> None:
        """Have some lanes take turns as one, and the others run in parallel. Fewer turns run at a time than
        the safety condition allows."""
        self._sharing_turns = lanes
        self._set_table(self.table)

    def restore(self, table: LaneTable, leases: Iterable[Lease]) -> None:
        """Replace the table by an earlier agent process's. All other leases leave it."""
        for lease in self._leases.values():
            lease.in_table = False
        self._leases = {lease.key: lease for lease in leases}
        for lease in self._leases.values():
            lease.in_table = True
        self._set_table(table)

    def enter(self, lease: Lease, *, was_admitted: bool = True) -> frozenset[Lease]:
        """Add a lease. It gets a lane or waits for one.

        Args:
            lease: the lease.
            was_admitted: whether it had a lane before. Without a lane it had no turn, so it has nothing on
                the GPU.

        Returns:
            The leases whose lane changed, including this one if it got a lane.
        """
        self._leases[lease.key] = lease
        lease.in_table = True
        lease.counted = counted_sizes(lease.sessions, lease.template, lease.counted)
        outcome = self.table.admit(lease.tenant(), holds_memory=was_admitted and lease.holds_memory)
        if outcome.evict:
            outcome = self.table.admit(replace(lease.tenant(), resident_bytes=0, occupied_bytes=0))
            lease.uncovered = self._not_covered(lease, outcome)
        return self._apply(outcome)

    def measure(self, lease: Lease) -> frozenset[Lease]:
        """Update a lease's sizes. Return the leases whose lane changed."""
        before = lease.tenant()
        lease.counted = counted_sizes(lease.sessions, lease.template, lease.counted)
        # Most updates change only the iteration time, which does not affect lanes.
        if not lease.in_table or (lease.tenant() == before and not lease.uncovered):
            return frozenset()
        return self._resize(lease) | self._resize_uncovered(lease)

    def see(self, lease: Lease, seen: SeenMemory) -> frozenset[Lease]:
        """Update what was seen of a lease's memory. Return the leases whose lane changed."""
        rules = self.table.rules
        before = lease.tenant()
        lease.seen = seen
        after = lease.tenant()
        unchanged = lease.key in self._memory_lane_of and all(
            count(before, rules) == count(after, rules)
            for count in (counted_persistent_bytes, counted_ephemeral_bytes)
        )
        if not lease.in_table or ((unchanged or before == after) and not lease.uncovered):
            return frozenset()
        return self._resize(lease) | self._resize_uncovered(lease)

    def start_over(self, lease: Lease) -> frozenset[Lease]:
        """Count a lease as at its allocation, because its last process has ended. Return the leases whose lane
        changed."""
        return self.leave(lease) | self.enter(lease, was_admitted=False)

    def leave(self, lease: Lease, *, keep_sizes: bool = False) -> frozenset[Lease]:
        """Remove a lease. Return the leases whose lane changed.

        Args:
            lease: the lease.
            keep_sizes: it will return unchanged, so its sizes stay known.
        """
        lease.in_table = False
        lease.uncovered = ""
        if not keep_sizes:
            lease.counted = None
        moved = self._apply(self.table.leave(lease.key))
        del self._leases[lease.key]
        return (moved - {lease}) | self._resize_uncovered(lease)

    def readmit(self, lease: Lease) -> frozenset[Lease]:
        """Admit a lease again because its sharing terms changed. Return the leases whose lane changed."""
        return self._resize(lease) | self._resize_uncovered(lease) | {lease}

    def is_admitted(self, lease: Lease) -> bool:
        """Return whether a lease's memory counts: it has or had a lane. One that waits for its first lane
        does not count."""
        return not any(
            entry.tenant.key == lease.key and not entry.holds_memory for entry in self.table.waiting
        )

    def is_paused(self, lease: Lease) -> bool:
        """Return whether an order keeps a lease out of the lanes."""
        return any(entry.paused and entry.tenant.key == lease.key for entry in self.table.waiting)

    def pause(self, lease: Lease) -> frozenset[Lease]:
        """Take a lease out of its lane and keep it out. Return the leases whose lane changed, including
        this one.

        Its persistent bytes still count. Its ephemeral bytes, unused between turns, become available to
        others.
        """
        return self._apply(self.table.pause(lease.key)) | self._resize_uncovered(lease)

    def resume(self, lease: Lease) -> frozenset[Lease]:
        """Let a paused lease have a lane again, or wait for one. Return the leases whose lane changed."""
        return self._apply(self.table.resume(lease.key))

    def no_lane_reason(self, lease: Lease) -> str:
        """Return why a lease has no lane, as a clause; empty if it has one."""
        for waiting in self.table.waiting:
            if waiting.tenant.key == lease.key and not waiting.paused:
                what = "lost its lane and gets no turns" if waiting.holds_memory else "waits for a lane"
                return self._said_to(lease, f"{what}: ", waiting.refusal)
        return ""

    def fits(self, lease: Lease, running: Iterable[Lease], pending: Iterable[PendingRelease] = ()) -> bool:
        """Return whether memory covers one more turn beside the running ones and the pending releases.

        For a current table without pending releases the safety condition guarantees this. While turns of an
        earlier table still run it does not: then the leases that hold turns count, not their present lanes.

        Args:
            lease: the lease that would get the turn.
            running: the leases with a turn.
            pending: turns that ended before their memory was released. Each counts with what it held then, or
                with what it counts now if that is more.
        """
        rules = self.table.rules
        keys = {lease.key} | {other.key for other in running}
        pending = tuple(pending)
        keys |= {each.lease.key for each in pending if self._leases.get(each.lease.key) is each.lease}
        counted = {
            tenant.key: counted_persistent_bytes(tenant, rules)
            + (counted_ephemeral_bytes(tenant, rules) if tenant.key in keys else 0)
            for tenant in self._memory_holders()
        }
        promised = sum(counted.values())
        for each in pending:
            held = counted_persistent_bytes(each.tenant, rules) + counted_ephemeral_bytes(each.tenant, rules)
            present = self._leases.get(each.lease.key) is each.lease
            promised += max(0, held - (counted.get(each.lease.key, 0) if present else 0))
        return promised <= self.table.capacity_bytes

    def _memory_holders(self) -> list[Tenant]:
        return [*self.table.tenants, *self.table.without_lane]

    def _resize(self, lease: Lease) -> frozenset[Lease]:
        outcome = self.table.resize(lease.tenant())
        lease.uncovered = ""
        if outcome.evict:
            lease.uncovered = self._not_covered(lease, outcome)
        return self._apply(outcome)

    def _resize_uncovered(self, changed: Lease) -> frozenset[Lease]:
        moved: frozenset[Lease] = frozenset()
        for lease in self._leases.values():
            if lease.uncovered and lease is not changed:
                moved |= self._resize(lease)
        return moved

    def _apply(self, outcome: Outcome) -> frozenset[Lease]:
        self._set_table(outcome.table)
        return frozenset(self._leases[moved.key] for moved in outcome.lane_changes)

    def _set_table(self, table: LaneTable) -> None:
        self.table = table
        self._memory_lane_of = {key: lane.id for lane in table.lanes for key in lane.tenants}
        first = min((lane.id for lane in table.lanes if lane.id in self._sharing_turns), default=None)
        self._lane_of = {}
        members: dict[int, tuple[Lease, ...]] = {}
        for lane in table.lanes:
            turn_lane = lane.id if first is None or lane.id not in self._sharing_turns else first
            self._lane_of |= dict.fromkeys(lane.tenants, turn_lane)
            members[turn_lane] = members.get(turn_lane, ()) + tuple(self._leases[key] for key in lane.tenants)
        self._members = members

    def _not_covered(self, lease: Lease, outcome: Outcome) -> str:
        what = "gets no turns and will be stopped if this persists: "
        if outcome.refusal is None:
            return f"{what}its memory exceeds what the GPU can cover"
        return self._said_to(lease, what, outcome.refusal)

    def _said_to(self, lease: Lease, before: str, refusal: Refusal) -> str:
        """Return a refusal in words, with what goes before it; the lease's job gets them into its status."""
        message = within(before, refusal.message)
        if not isinstance(message, str):
            message = message.renamed(self._pod_of)
        return sentence_for(message, lease.record.namespace)

    def _pod_of(self, key: str) -> str:
        lease = self._leases.get(key)
        return key if lease is None else f"{lease.record.namespace}/{lease.record.pod}"
