"""Tenants of a GPU come, are measured, grow, pause, resume and leave, in any order; the lane table's
invariants hold after each step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from laneway.lanes import (
    LaneRules,
    LaneTable,
    Outcome,
    Tenant,
    Waiting,
    counted_ephemeral_bytes,
    counted_persistent_bytes,
    fits,
    is_safe,
)

CAPACITY = 100
SIZES = st.tuples(st.integers(0, 80), st.integers(0, 80))


class LaneTableMachine(RuleBasedStateMachine):
    """One GPU of 100 bytes."""

    happened: ClassVar[Counter[str]] = Counter()
    """How often what has happened, in all machines together."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LaneTable.empty(CAPACITY)
        self.came = 0

    @initialize(max_lanes=st.sampled_from([0, 1, 3]), padding_percent=st.sampled_from([0, 5]))
    def a_gpu_is_empty(self, max_lanes: int, padding_percent: int) -> None:
        self.table = LaneTable.empty(CAPACITY, LaneRules(max_lanes, padding_percent))

    # What happens

    @rule(
        quota=st.one_of(st.integers(1, 110), st.just(CAPACITY)),
        sizes=st.one_of(st.none(), SIZES),
        spans=st.booleans(),
        exclusive=st.sampled_from([False] * 9 + [True]),
        holds_memory=st.sampled_from([False, False, True]),
    )
    def somebody_comes(
        self, quota: int, sizes: tuple[int, int] | None, spans: bool, exclusive: bool, holds_memory: bool
    ) -> None:
        self.came += 1
        tenant = Tenant(f"t{self.came}", quota, spans_gpus=spans, exclusive=exclusive)
        if sizes is not None:
            tenant = tenant.profiled_as(*sizes)
        none_waits = not self.table.waiting
        # The planner gives exclusive jobs whole GPUs; from a part of one, a claim to exclusive use counts for nothing.
        planned = replace(tenant, exclusive=exclusive and quota >= CAPACITY)
        expected = fits(CAPACITY, self.table.tenants, planned, self.table.rules)
        outcome = self.table.admit(tenant, holds_memory=holds_memory)
        if none_waits:
            assert (outcome.refusal is None) == expected, "the planner's answer and the agent's differ"
        if outcome.evict:
            assert holds_memory
            assert outcome.table is self.table
        self.take(outcome)

    @precondition(lambda self: self.keys())
    @rule(data=st.data(), sizes=SIZES)
    def somebody_is_measured(self, data: st.DataObject, sizes: tuple[int, int]) -> None:
        key = data.draw(st.sampled_from(self.keys()))
        first = not self.tenant(key).profiled
        had_lane = self.table.lane_of(key) is not None
        outcome = self.table.profile(key, *sizes)
        if first and had_lane:
            assert outcome.refusal is None, (
                "a first profile never costs a tenant its lane: it counted with its quota"
            )
        self.check_eviction(outcome, key)
        self.others_keep_their_memory(outcome, key)
        self.take(outcome)

    @precondition(lambda self: self.keys())
    @rule(data=st.data(), resident=st.integers(0, 110), in_a_turn=st.integers(0, 110))
    def memory_of_somebody_is_seen(self, data: st.DataObject, resident: int, in_a_turn: int) -> None:
        key = data.draw(st.sampled_from(self.keys()))
        changed = replace(self.tenant(key), resident_bytes=resident, occupied_bytes=resident + in_a_turn)
        outcome = self.table.resize(changed)
        if outcome.evict:
            assert outcome.table is self.table
            assert outcome.refusal is not None
        else:
            assert self.counted_persistent(outcome.table, key) >= min(resident, changed.quota_bytes)
            if outcome.table.lane_of(key) is not None:
                counted = self.counted_persistent(outcome.table, key) + counted_ephemeral_bytes(
                    changed, self.table.rules
                )
                assert counted >= min(resident + in_a_turn, changed.quota_bytes)
        self.others_keep_their_memory(outcome, key)
        self.take(outcome)
        self.happened.update({"memory without a lane was seen": self.is_counted_without_admission(key)})

    @precondition(lambda self: self.keys())
    @rule(data=st.data(), spans=st.booleans())
    def somebody_turns_out_to_be_another(self, data: st.DataObject, spans: bool) -> None:
        key = data.draw(st.sampled_from(self.keys()))
        before = self.tenant(key)
        outcome = self.table.resize(
            Tenant(key, before.quota_bytes, spans_gpus=spans, exclusive=before.exclusive)
        )
        self.check_eviction(outcome, key)
        self.take(outcome)

    @precondition(lambda self: self.keys())
    @rule(data=st.data())
    def somebody_is_paused(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.keys()))
        had_lane = self.table.lane_of(key) is not None
        self.take(self.table.pause(key))
        assert self.entry(key).paused
        assert self.entry(key).holds_memory or not had_lane, "what it holds goes on counting"

    @precondition(lambda self: self.table.waiting)
    @rule(data=st.data())
    def somebody_goes_on(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([entry.tenant.key for entry in self.table.waiting]))
        self.take(self.table.resume(key))
        assert self.table.lane_of(key) is not None or not self.entry(key).paused

    @precondition(lambda self: self.keys())
    @rule(data=st.data())
    def somebody_leaves(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.keys()))
        self.take(self.table.leave(key))
        assert key not in self.keys()

    @rule()
    def the_agent_restarts(self) -> None:
        tenants = {tenant.key: tenant for tenant in self.table.tenants}
        lanes = {lane.id: tuple(tenants[key] for key in lane.tenants) for lane in self.table.lanes}
        restored = LaneTable.restored(CAPACITY, self.table.rules, lanes)
        assert restored is not None
        assert restored.lanes == self.table.lanes
        self.happened.update({"change": 1, "a restart": 1})

    # What holds

    @invariant()
    def the_safety_condition_holds(self) -> None:
        tenants = {tenant.key: tenant for tenant in self.table.tenants}
        members = [[tenants[key] for key in lane.tenants] for lane in self.table.lanes]
        assert is_safe(CAPACITY, members, self.table.rules, self.held())
        assert self.table.promised_bytes <= CAPACITY

    @invariant()
    def lanes_keep_their_rules(self) -> None:
        tenants = {tenant.key: tenant for tenant in self.table.tenants}
        limit = self.table.rules.max_lanes
        assert not limit or len(self.table.lanes) <= limit
        assert sorted(key for lane in self.table.lanes for key in lane.tenants) == sorted(tenants)
        for lane in self.table.lanes:
            assert lane.tenants, "an empty lane stays"
            assert sum(tenants[key].spans_gpus for key in lane.tenants) <= 1
        if any(tenant.exclusive for tenant in tenants.values()):
            assert len(tenants) == 1
        everybody = [*tenants.values(), *(entry.tenant for entry in self.table.waiting)]
        assert all(tenant.quota_bytes >= CAPACITY for tenant in everybody if tenant.exclusive)

    @invariant()
    def everybody_is_somewhere_once(self) -> None:
        assert len(self.keys()) == len(set(self.keys()))

    @invariant()
    def a_waiting_tenant_has_a_reason_and_does_not_fit(self) -> None:
        for entry in self.table.waiting:
            assert entry.refusal.message
            if entry.paused:
                continue
            others = [tenant for tenant in self.held() if tenant.key != entry.tenant.key]
            count = sum(counted_persistent_bytes(tenant, self.table.rules) for tenant in others)
            assert not fits(CAPACITY - count, self.table.tenants, entry.tenant, self.table.rules) or any(
                tenant.exclusive or entry.tenant.exclusive for tenant in others
            ), "it waits although there is room"

    # Helpers

    def take(self, outcome: Outcome) -> None:
        before = {key: lane.id for lane in self.table.lanes for key in lane.tenants}
        for moved in outcome.lane_changes:
            assert before.get(moved.key) == moved.lane_before
            before[moved.key] = moved.lane  # type: ignore[assignment]
        after = {key: lane.id for lane in outcome.table.lanes for key in lane.tenants}
        assert {key: lane for key, lane in before.items() if lane is not None} == after, (
            "a move was not reported"
        )
        waited = {entry.tenant.key for entry in self.table.waiting}
        self.count(outcome, waited)
        self.table = outcome.table

    def count(self, outcome: Outcome, waited: set[str]) -> None:
        table = outcome.table
        known = {*self.keys()}
        self.happened.update(
            {
                "change": 1,
                "a tenant came": any(tenant.key not in known for tenant in table.tenants),
                "a tenant was refused": outcome.refusal is not None,
                "a tenant was evicted": outcome.evict,
                "a tenant moved to another lane": any(
                    None not in (moved.lane_before, moved.lane) for moved in outcome.lane_changes
                ),
                "a tenant got its lane later": any(tenant.key in waited for tenant in table.tenants),
                "a paused tenant kept its memory": any(entry.holds_memory for entry in table.waiting),
                "a lane was shared": any(len(lane.tenants) > 1 for lane in table.lanes),
                "several lanes ran": len(table.lanes) > 1,
            }
        )

    def check_eviction(self, outcome: Outcome, key: str) -> None:
        if outcome.evict:
            assert outcome.table is self.table
            assert outcome.refusal is not None
            assert self.table.lane_of(key) is not None or self.entry(key).counted is not None

    def others_keep_their_memory(self, outcome: Outcome, key: str) -> None:
        """Whatever one tenant says or does, the memory that others hold goes on counting."""
        for entry in self.held():
            if entry.key != key:
                count = counted_persistent_bytes(entry, self.table.rules)
                assert self.counted_persistent(outcome.table, entry.key) >= count
        for tenant in self.table.tenants:
            if tenant.key != key:
                assert tenant in outcome.table.tenants or any(
                    entry.tenant == tenant and entry.holds_memory for entry in outcome.table.waiting
                )

    @staticmethod
    def counted_persistent(table: LaneTable, key: str) -> int:
        present = (*table.tenants, *table.without_lane)
        return sum(counted_persistent_bytes(each, table.rules) for each in present if each.key == key)

    def held(self) -> list[Tenant]:
        """Tenants without a lane that have memory, as it counts."""
        found = [(entry, entry.counted) for entry in self.table.waiting]
        assert all(
            entry.holds_memory or not entry.tenant.resident_bytes
            for entry, counted in found
            if counted is None
        )
        return [counted for _, counted in found if counted is not None]

    def is_counted_without_admission(self, key: str) -> bool:
        if key not in [entry.tenant.key for entry in self.table.waiting]:
            return False
        entry = self.entry(key)
        return not entry.holds_memory and entry.counted is not None

    def keys(self) -> list[str]:
        return [tenant.key for tenant in self.table.tenants] + [e.tenant.key for e in self.table.waiting]

    def tenant(self, key: str) -> Tenant:
        return next((t for t in self.table.tenants if t.key == key), None) or self.entry(key).tenant

    def entry(self, key: str) -> Waiting:
        return next(entry for entry in self.table.waiting if entry.tenant.key == key)
