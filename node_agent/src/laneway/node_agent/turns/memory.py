"""The lane table of one GPU, with the holds that are in it: which lane, why none, and whether a turn fits right now."""

from __future__ import annotations

from collections.abc import Iterable

from laneway.lanes import (
    Lane,
    LaneRules,
    LaneTable,
    Outcome,
    Tenant,
    counted_ephemeral_bytes,
    counted_persistent_bytes,
)
from laneway.node_agent.turns.counting import counted_sizes
from laneway.node_agent.turns.hold import Hold


class LaneMemory:
    """Keeps the table, and remembers whose growth it refused to cover."""

    def __init__(self, capacity_bytes: int, rules: LaneRules) -> None:
        self.table = LaneTable.empty(capacity_bytes, rules)
        self._holds: dict[str, Hold] = {}
        self._lane_of: dict[str, int] = {}
        self._members: dict[int, tuple[Hold, ...]] = {}

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """Return the lanes, ordered by id."""
        return self.table.lanes

    def lane_of(self, hold: Hold) -> int | None:
        """Return the hold's lane; None while it has none."""
        return self._lane_of.get(hold.key)

    def hold(self, key: str) -> Hold:
        """Return the hold of a tenant of the table."""
        return self._holds[key]

    def members(self, lane: int) -> tuple[Hold, ...]:
        """Return the holds that take turns in a lane, in order of entry."""
        return self._members.get(lane, ())

    def restore(self, table: LaneTable, holds: Iterable[Hold]) -> None:
        """Go on with the table of an agent that is gone."""
        self._holds = {hold.key: hold for hold in holds}
        for hold in self._holds.values():
            hold.in_table = True
        self._take(table)

    def enter(self, hold: Hold, *, was_admitted: bool = True) -> frozenset[Hold]:
        """Take a hold in; it gets a lane, or waits for one.

        Args:
            hold: whom.
            was_admitted: it had a lane before; who never had one had no turn, and so has nothing on the GPU.

        Returns:
            The holds whose lane changed, this one included where it got one.
        """
        self._holds[hold.key] = hold
        hold.in_table = True
        hold.counted = counted_sizes(hold.sessions, hold.template, hold.counted)
        outcome = self.table.admit(hold.tenant(), holds_memory=was_admitted and hold.holds_memory)
        if outcome.evict:
            outcome = self.table.admit(hold.tenant())
            hold.uncovered = _not_covered(outcome)
        return self._follow(outcome)

    def measure(self, hold: Hold) -> frozenset[Hold]:
        """Take note of a hold's sizes; returns the holds whose lane changed."""
        before = hold.tenant()
        hold.counted = counted_sizes(hold.sessions, hold.template, hold.counted)
        # Most news are of the iteration's time, which says nothing about lanes.
        if not hold.in_table or (hold.tenant() == before and not hold.uncovered):
            return frozenset()
        return self._cover(hold) | self._cover_others(hold)

    def leave(self, hold: Hold, *, keep_sizes: bool = False) -> frozenset[Hold]:
        """Let a hold go; returns the holds whose lane changed.

        Args:
            hold: whom.
            keep_sizes: it will be back as it was, so its sizes go on being known.
        """
        hold.in_table = False
        hold.uncovered = ""
        if not keep_sizes:
            hold.counted = None
        moved = self._follow(self.table.leave(hold.key))
        del self._holds[hold.key]
        return (moved - {hold}) | self._cover_others(hold)

    def readmit(self, hold: Hold) -> frozenset[Hold]:
        """Let a hold in anew, because what it may share has changed; returns the holds whose lane changed."""
        return self._cover(hold) | self._cover_others(hold) | {hold}

    def is_admitted(self, hold: Hold) -> bool:
        """Return whether a hold's memory counts: it has a lane, or had one. Who waits for its first is not admitted."""
        return not any(entry.tenant.key == hold.key and not entry.parked for entry in self.table.waiting)

    def is_parked(self, hold: Hold) -> bool:
        """Return whether a hold is kept out of the lanes by order."""
        return any(entry.paused and entry.tenant.key == hold.key for entry in self.table.waiting)

    def park(self, hold: Hold) -> frozenset[Hold]:
        """Take a hold out of its lane, and keep it out; returns the holds whose lane changed, this one included.

        Its persistent bytes go on counting; its ephemeral, which it does not use between turns, goes to others.
        """
        return self._follow(self.table.park(hold.key)) | self._cover_others(hold)

    def unpark(self, hold: Hold) -> frozenset[Hold]:
        """Let a hold have a lane again, or wait for one; returns the holds whose lane changed."""
        return self._follow(self.table.unpark(hold.key))

    def why_no_lane(self, hold: Hold) -> str:
        """Return why a hold has no lane, as a sentence; empty where it has one."""
        for waiting in self.table.waiting:
            if waiting.tenant.key == hold.key and not waiting.paused:
                what = "has no lane any more and is held back" if waiting.parked else "waits for a lane"
                return f"{what}: {waiting.refusal.message}"
        return ""

    def has_room(self, hold: Hold, running: Iterable[Hold]) -> bool:
        """Whether memory covers one more turn beside those that run.

        In a settled table this follows from the safety condition. It does not while turns of an earlier table run on:
        then what counts is who is really inside, not which lane he is in.
        """
        rules = self.table.rules
        promised = sum(counted_persistent_bytes(tenant, rules) for tenant in self._held())
        keys = {hold.key} | {other.key for other in running}
        promised += sum(
            counted_ephemeral_bytes(tenant, rules) for tenant in self._held() if tenant.key in keys
        )
        return promised <= self.table.capacity_bytes

    def _held(self) -> list[Tenant]:
        return [*self.table.tenants, *(waiting.tenant for waiting in self.table.waiting if waiting.parked)]

    def _cover(self, hold: Hold) -> frozenset[Hold]:
        outcome = self.table.resize(hold.tenant())
        hold.uncovered = ""
        if outcome.evict:
            hold.uncovered = _not_covered(outcome)
        return self._follow(outcome)

    def _cover_others(self, changed: Hold) -> frozenset[Hold]:
        moved: frozenset[Hold] = frozenset()
        for hold in self._holds.values():
            if hold.uncovered and hold is not changed:
                moved |= self._cover(hold)
        return moved

    def _follow(self, outcome: Outcome) -> frozenset[Hold]:
        self._take(outcome.table)
        return frozenset(self._holds[moved.key] for moved in outcome.moved)

    def _take(self, table: LaneTable) -> None:
        self.table = table
        self._lane_of = {key: lane.id for lane in table.lanes for key in lane.tenants}
        self._members = {lane.id: tuple(self._holds[key] for key in lane.tenants) for lane in table.lanes}


def _not_covered(outcome: Outcome) -> str:
    reason = outcome.refusal.message if outcome.refusal else "its memory is more than the GPU can cover"
    return f"gets no turns, and has to be stopped if that lasts: {reason}"
