"""The lanes of tenants when one comes, is profiled, grows or leaves. The GPU has 100 bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from laneway.lanes import LaneChange, LaneRules, LaneTable, RefusalReason, Tenant

from tests.support.lanes.lane_table_machine import LaneTableMachine
from tests.support.property_examples import examples
from tests.unit.core.lanes.builders import EXACT, known, lanes, table_of, unknown


@pytest.mark.parametrize(
    ("story", "table", "newcomer", "want"),
    [
        ("the first tenant opens a lane", table_of(100), unknown("a", 50), ["a"]),
        (
            "where memory allows, each has a lane",
            table_of(100, known("a", 10, 20)),
            known("b", 10, 20),
            ["a", "b"],
        ),
        (
            "where it doesn't, a newcomer joins the lane that grows least",
            table_of(100, known("a", 10, 20), known("b", 10, 40)),
            known("c", 10, 30),
            ["a", "bc"],
        ),
        (
            "of lanes that grow alike, the one with fewer tenants",
            table_of(65, known("a", 5, 20), known("b", 5, 20), known("c", 5, 20)),
            known("d", 5, 20),
            ["ac", "bd"],
        ),
        (
            "at the lane limit a newcomer joins although there is memory",
            table_of(100, known("a", 5, 5), max_lanes=1),
            known("b", 5, 5),
            ["ab"],
        ),
        (
            "lanes are merged to make room for an unprofiled tenant",
            table_of(100, known("a", 10, 30), known("b", 10, 30)),
            unknown("c", 50),
            ["ab", "c"],
        ),
        (
            "of merges that would do, the one that frees least",
            table_of(100, known("a", 0, 10), known("b", 0, 20), known("c", 0, 40)),
            unknown("d", 40),
            ["ab", "c", "d"],
        ),
        (
            "an ephemeral too large for every lane merges lanes",
            table_of(100, known("a", 5, 40), known("b", 5, 40)),
            known("c", 5, 60),
            ["abc"],
        ),
        (
            "lanes are merged to make a lane for an unprofiled tenant",
            table_of(100, known("a", 5, 5), known("b", 5, 5), max_lanes=2),
            unknown("c", 50),
            ["ab", "c"],
        ),
        (
            "an unprofiled tenant shares a lane only where the limit leaves no other way",
            table_of(100, unknown("a", 30), max_lanes=1),
            unknown("b", 30),
            ["ab"],
        ),
        (
            "two jobs on several GPUs never share a lane",
            table_of(100, known("a", 5, 20, spans=True), known("b", 5, 20, spans=True), known("c", 5, 20)),
            known("d", 20, 15, spans=True),
            ["a", "b", "cd"],
        ),
    ],
)
def test_admission(story: str, table: LaneTable, newcomer: Tenant, want: list[str]) -> None:
    outcome = table.admit(newcomer)
    assert outcome.refusal is None, story
    assert lanes(outcome) == want, story
    assert outcome.table.lane_of(newcomer.key) is not None


def test_a_tenant_that_fits_nowhere_waits_with_the_reason() -> None:
    outcome = table_of(100, unknown("a", 60)).admit(unknown("b", 60))
    assert outcome.refusal is not None
    assert outcome.refusal.reason is RefusalReason.AWAITING_PROFILE
    assert outcome.refusal.lacking_bytes == 20
    assert outcome.table.lane_of("b") is None
    assert [entry.tenant.key for entry in outcome.table.waiting] == ["b"]
    assert outcome.table.free_bytes == 40
    assert outcome.lane_changes == ()


def test_a_profile_lets_in_who_waited_for_it() -> None:
    table = table_of(100, unknown("a", 60), unknown("b", 60))
    outcome = table.profile("a", 10, 20)
    assert outcome.lane_changes == (LaneChange("b", None, 1),)
    assert lanes(outcome) == ["a", "b"]
    assert outcome.table.waiting == ()


def test_those_that_wait_are_tried_in_the_order_in_which_they_came() -> None:
    table = table_of(100, unknown("a", 100), unknown("c", 60), unknown("b", 60))
    table = table.leave("a").table
    assert lanes(table) == ["c"]
    assert [entry.tenant.key for entry in table.waiting] == ["b"]


def test_a_first_profile_never_costs_a_tenant_its_lane() -> None:
    table = table_of(100, unknown("a", 50), unknown("b", 50))
    outcome = table.profile("a", 25, 25)
    assert outcome.lane_changes == ()
    assert lanes(outcome) == ["a", "b"]


def test_a_tenant_that_outgrows_its_lane_finds_another() -> None:
    table = table_of(100, known("a", 10, 20, quota=60), known("b", 10, 50))
    outcome = table.profile("a", 10, 45)
    assert lanes(outcome) == ["ab"]
    assert outcome.refusal is None


def test_a_tenant_that_outgrows_the_gpu_loses_its_lane_and_keeps_its_memory() -> None:
    table = table_of(100, known("a", 10, 20, quota=80), known("b", 50, 10))
    outcome = table.profile("a", 20, 50)
    assert outcome.refusal is not None
    assert outcome.refusal.reason is RefusalReason.INSUFFICIENT_MEMORY
    assert not outcome.evict
    assert outcome.table.promised_bytes == 20 + 60
    assert outcome.lane_changes == (LaneChange("a", 0, None),)
    back = outcome.table.leave("b")
    assert back.lane_changes == (LaneChange("a", None, 0), LaneChange("b", 1, None))


def test_a_tenant_whose_growth_nothing_covers_is_to_be_evicted_and_changes_nothing() -> None:
    table = table_of(100, known("a", 10, 20, quota=80), known("b", 50, 10))
    outcome = table.profile("a", 60, 0)
    assert outcome.evict
    assert outcome.table is table
    assert outcome.refusal is not None
    assert outcome.refusal.lacking_bytes == 20


def test_when_a_tenant_leaves_crowded_lanes_are_split() -> None:
    table = table_of(100, known("a", 10, 30), known("b", 10, 30), known("c", 10, 30))
    assert lanes(table) == ["ac", "b"]
    outcome = table.leave("b")
    assert lanes(outcome) == ["a", "c"]
    assert outcome.lane_changes == (LaneChange("b", 1, None), LaneChange("c", 0, 1))


def test_where_no_split_fits_the_large_are_put_together_so_that_the_small_get_lanes() -> None:
    crowd = [known("a", 0, 50), known("b", 0, 40), known("c", 0, 30), known("d", 10, 20)]
    table = table_of(100, *crowd)
    assert lanes(table) == ["ac", "bd"], (
        "50 and 40 beside 10: no other two by two are better, and three do not fit"
    )
    outcome = table.profile("d", 0, 20)
    assert lanes(outcome) == ["ab", "c", "d"], "no tenant could leave a lane of 50 or 40 for one of its own"
    assert outcome.table.promised_bytes == 100


def test_nobody_changes_lanes_where_that_would_make_no_lane_more() -> None:
    table = table_of(95, known("a", 0, 50), known("b", 0, 40), known("c", 0, 30), known("d", 0, 20))
    assert lanes(table) == ["ac", "bd"]
    assert table.profile("d", 0, 19).lane_changes == ()


def test_defragmenting_keeps_jobs_on_several_gpus_apart() -> None:
    spanning = [known("a", 0, 50, spans=True), known("b", 0, 40, spans=True)]
    table = table_of(100, *spanning, known("c", 0, 30), known("d", 0, 20))
    assert lanes(table) == ["ac", "bd"]


def test_defragmenting_keeps_to_the_lane_limit() -> None:
    crowd = [known("a", 0, 50), known("b", 0, 40), known("c", 0, 30), known("d", 0, 20)]
    assert len(table_of(100, *crowd, max_lanes=2).lanes) == 2


def test_a_lane_shrinks_when_its_largest_tenant_leaves() -> None:
    table = table_of(100, known("a", 10, 10), known("b", 10, 50), max_lanes=1)
    assert table.lanes[0].ephemeral_bytes == 50
    assert table.leave("b").table.lanes[0].ephemeral_bytes == 10


def test_leaving_while_waiting_frees_nothing_and_is_fine() -> None:
    table = table_of(100, unknown("a", 100), unknown("b", 100)).leave("b").table
    assert lanes(table) == ["a"]
    assert table.waiting == ()


def test_a_paused_tenant_keeps_its_memory_and_makes_room_in_its_lane() -> None:
    table = table_of(100, known("a", 10, 60), known("b", 10, 20))
    table = table.admit(known("c", 20, 40)).table
    assert lanes(table) == ["abc"]
    outcome = table.pause("a")
    assert lanes(outcome) == ["b", "c"]
    assert outcome.table.promised_bytes == 10 + (10 + 20) + (20 + 40)
    assert outcome.refusal is not None
    assert outcome.refusal.reason is RefusalReason.PAUSED
    assert LaneChange("a", 0, None) in outcome.lane_changes
    assert outcome.table.lane_of("a") is None


def test_a_pause_lets_in_who_waited_for_the_memory_of_the_lane() -> None:
    table = table_of(100, known("a", 10, 60), known("b", 50, 20), known("c", 10, 60))
    assert lanes(table) == ["ac"]
    outcome = table.pause("a").table.pause("c")
    assert lanes(outcome) == ["b"]
    assert outcome.lane_changes == (LaneChange("b", None, 0), LaneChange("c", 0, None))


def test_a_paused_tenant_stays_out_although_there_is_room() -> None:
    table = table_of(100, known("a", 10, 20), known("b", 10, 20)).pause("a").table
    assert lanes(table.leave("b")) == []
    assert lanes(table.profile("a", 10, 10)) == ["b"]
    assert lanes(table.pause("a")) == ["b"]


def test_who_goes_on_after_a_pause_gets_a_lane_again() -> None:
    outcome = table_of(100, known("a", 10, 20), known("b", 10, 20)).pause("a").table.resume("a")
    assert lanes(outcome) == ["a", "b"]
    assert outcome.refusal is None
    assert outcome.lane_changes == (LaneChange("a", None, 0),)
    assert outcome.table.resume("a").lane_changes == ()


def test_who_goes_on_after_a_pause_waits_with_its_memory_where_the_lane_was_given_away() -> None:
    table = table_of(100, known("a", 10, 60), known("b", 50, 20)).pause("a").table
    assert lanes(table) == ["b"]
    outcome = table.resume("a")
    assert outcome.refusal is not None
    assert outcome.refusal.reason is RefusalReason.INSUFFICIENT_MEMORY
    assert outcome.refusal.lacking_bytes == 20
    assert outcome.table.promised_bytes == 10 + 70
    assert lanes(outcome.table.leave("b")) == ["a"]


def test_who_is_paused_before_it_had_a_lane_holds_nothing_and_keeps_its_place_in_the_line() -> None:
    table = table_of(100, unknown("a", 100), unknown("b", 60), unknown("c", 60)).pause("b").table
    assert table.promised_bytes == 100
    assert [entry.tenant.key for entry in table.waiting] == ["b", "c"]
    table = table.leave("a").table
    assert lanes(table) == ["c"]
    table = table.resume("b").table.leave("c").table
    assert lanes(table) == ["b"]


def test_an_unprofiled_tenant_that_is_paused_counts_with_its_whole_share() -> None:
    assert table_of(100, unknown("a", 60)).pause("a").table.promised_bytes == 60


def test_growth_that_was_measured_late_counts_while_paused() -> None:
    table = table_of(100, known("a", 10, 20, quota=80), known("b", 50, 10)).pause("a").table
    assert table.profile("a", 30, 0).table.promised_bytes == 30 + 60
    assert table.profile("a", 60, 0).evict


def test_a_tenant_of_which_nothing_is_known_any_more_counts_with_its_whole_share_again() -> None:
    table = table_of(100, known("a", 10, 20, quota=60), known("b", 10, 20))
    outcome = table.resize(unknown("a", 60))
    assert outcome.table.promised_bytes == 60 + 30
    assert lanes(outcome) == ["a", "b"]
    crowded = table.admit(known("c", 20, 10)).table.resize(unknown("a", 60))
    assert crowded.evict, "60 beside 30 and 30: what it may use now is not covered"


def test_a_tenant_that_turns_out_to_span_gpus_leaves_the_lane_of_another_such_job() -> None:
    table = table_of(100, known("a", 10, 60, spans=True), known("b", 10, 10), max_lanes=1)
    assert lanes(table) == ["ab"]
    outcome = table.resize(known("b", 10, 10, spans=True))
    assert lanes(outcome) == ["a"]
    assert outcome.refusal is not None
    assert outcome.refusal.reason is RefusalReason.LANE_LIMIT
    assert outcome.table.promised_bytes == 80, "it holds its persistent memory"


def test_who_holds_memory_already_counts_while_it_waits() -> None:
    table = table_of(100, known("a", 50, 20))
    assert table.admit(known("b", 20, 50)).table.promised_bytes == 70
    waiting = table.admit(known("b", 20, 50), holds_memory=True)
    assert waiting.table.promised_bytes == 90
    assert waiting.refusal is not None
    assert waiting.table.leave("a").lane_changes == (LaneChange("a", 0, None), LaneChange("b", None, 0))
    assert lanes(table.admit(known("b", 10, 20), holds_memory=True)) == ["a", "b"]


def test_who_is_on_the_gpu_and_who_wants_it_alone_do_not_wait_for_each_other() -> None:
    table = table_of(100, unknown("a", 20))
    alone = Tenant("alone", 100, 10, 10, profiled=True, exclusive=True)
    table = table.admit(alone, holds_memory=True).table
    assert lanes(table) == ["a"]
    outcome = table.profile("a", 10, 5)
    assert lanes(outcome) == ["a"]
    assert outcome.refusal is None
    newcomer = outcome.table.admit(unknown("n", 10))
    assert newcomer.refusal is not None
    assert newcomer.refusal.reason is RefusalReason.HELD_EXCLUSIVELY
    assert lanes(newcomer.table.leave("a")) == ["alone"]


@pytest.mark.parametrize(("quota", "alone"), [(100, True), (99, False), (1, False)])
def test_only_the_whole_gpu_is_had_alone(quota: int, alone: bool) -> None:
    """A tenant's claim comes from its pod's annotation. With a part of the GPU it would keep out those who have the rest."""
    claims = Tenant("claims", quota, 1, 0, profiled=True, exclusive=True)
    table = table_of(100, claims)
    assert (table.admit(known("n", 40, 10)).refusal is not None) is alone
    grown = table.resize(replace(claims, persistent_bytes=2)).table
    assert (grown.admit(known("n", 40, 10)).refusal is not None) is alone
    restored = LaneTable.restored(100, EXACT, {0: (claims,)})
    assert restored is not None
    assert (restored.admit(known("n", 40, 10)).refusal is not None) is alone
    beside = table_of(100, known("n", 40, 10)).admit(replace(claims, persistent_bytes=1))
    assert (beside.refusal is not None) is alone


def test_who_holds_more_than_can_be_covered_is_not_in_the_table() -> None:
    table = table_of(100, known("a", 50, 20))
    outcome = table.admit(known("b", 40, 0), holds_memory=True)
    assert outcome.evict
    assert outcome.table is table


def test_a_table_is_restored_where_the_bounds_allow_it() -> None:
    table = table_of(100, known("a", 10, 20, spans=True), known("b", 10, 20), known("c", 10, 30))
    tenants = {tenant.key: tenant for tenant in table.tenants}
    kept = {lane.id: tuple(tenants[key] for key in lane.tenants) for lane in table.lanes}
    assert LaneTable.restored(100, table.rules, kept) == table
    assert LaneTable.restored(100, table.rules, {**kept, 7: ()}) == table
    assert LaneTable.restored(80, table.rules, kept) is None, "less memory"
    assert LaneTable.restored(100, LaneRules(max_lanes=1, padding_percent=0), kept) is None, "fewer lanes"
    both = {0: (known("a", 1, 1, spans=True), known("b", 1, 1, spans=True))}
    assert LaneTable.restored(100, table.rules, both) is None


def test_padding_counts_in_lanes() -> None:
    table = table_of(100, known("a", 10, 20, quota=100), padding=10)
    assert table.promised_bytes == 33


def test_nobody_comes_twice() -> None:
    with pytest.raises(ValueError, match="tenant a is on this GPU already"):
        table_of(100, unknown("a", 10)).admit(unknown("a", 10))


@pytest.mark.parametrize("change", ["leave", "profile", "lane_of", "pause", "resume"])
def test_a_tenant_that_nobody_knows_is_an_error(change: str) -> None:
    with pytest.raises(KeyError, match="ghost"):
        table_of(100, unknown("a", 10)).resize(unknown("ghost", 1))
    arguments = (1, 1) if change == "profile" else ()
    with pytest.raises(KeyError, match="ghost"):
        getattr(table_of(100, unknown("a", 10)), change)("ghost", *arguments)


TestLaneTable = LaneTableMachine.TestCase
TestLaneTable.settings = settings(max_examples=examples(40), stateful_step_count=40)
