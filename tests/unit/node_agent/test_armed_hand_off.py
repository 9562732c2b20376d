"""Hand-offs in which the process that leaves wakes its successor, and what a hostile one gains by lying."""

from __future__ import annotations

import pytest

from tests.support.node_agent.gpu_bench import GPUBench, Process


def armed_lane(waiting: int = 1) -> tuple[GPUBench, Process, list[Process]]:
    """A lane whose holder is inside an iteration, behind which the longest waiting process is armed."""
    bench = GPUBench(max_lanes=1, quantum_seconds=0.004)
    holder, *others = [bench.job(f"pod-{number}", 10, 30) for number in range(waiting + 1)]
    holder.request()
    holder.begin()
    for other in others:
        bench.clock.advance(0.0001)
        other.request()
    assert others[0].page.armed[0] == holder.page.turn + 1
    return bench, holder, others


def release(process: Process, turn: int, again: bool = True) -> None:
    process.page.taken = 0
    process.bench.turns.scheduler.release(process.lease, process.session, turn, 1, 0.001, again)


def leave(holder: Process) -> Process | None:
    """End the holder's iteration and wake its successor; its release is still on its way."""
    holder.bench.clock.advance(0.0045)
    holder.end()
    return holder.wake_successor()


def test_a_woken_successor_has_its_turn_without_a_message() -> None:
    bench, holder, (other,) = armed_lane()
    turn = holder.page.turn
    assert leave(holder) is other
    other.page.inside = True
    release(holder, turn)
    assert other.page.turn == turn + 1
    assert ("grant", turn + 1) not in other.channel.sent
    assert other.page.armed == (0, 0)
    assert bench.turns.scheduler.turns[other.lease].holders == [other.session]
    assert holder.page.armed[0] == turn + 2, "the one that left is armed behind its successor"


def test_each_pays_for_its_own_time_however_late_the_release_arrives() -> None:
    bench, holder, (other,) = armed_lane()
    turn, began = holder.page.turn, bench.turns.scheduler.turns[holder.lease].began_seconds
    leave(holder)
    left = bench.clock.now
    other.begin_armed()
    bench.clock.advance(0.05)
    release(holder, turn)
    assert holder.lease.service_seconds == pytest.approx(left - began, abs=1e-6)
    assert bench.turns.scheduler.turns[other.lease].began_seconds == pytest.approx(left, abs=1e-6)


@pytest.mark.parametrize("who", ["holder", "other"])
def test_a_false_time_of_the_hand_over_shifts_no_time_before_it_or_into_the_future(who: str) -> None:
    bench, holder, (other,) = armed_lane()
    turn = holder.page.turn
    leave(holder)
    left = bench.clock.now
    other.begin_armed()
    if who == "holder":
        holder.page.boundary_ns = 1
    else:
        other.page.taken_ns = 1 << 62
    bench.clock.advance(0.01)
    release(holder, turn)
    began = bench.turns.scheduler.turns[other.lease].began_seconds
    assert left - 1e-6 <= began <= bench.clock.now


def test_a_successor_that_is_not_woken_is_granted_its_turn() -> None:
    _, holder, (other,) = armed_lane()
    turn = holder.page.turn
    holder.bench.clock.advance(0.0045)
    holder.end()
    release(holder, turn)
    assert other.channel.sent[-1] == ("grant", turn + 1)


def test_only_the_armed_process_of_the_lane_has_the_wake() -> None:
    _, holder, others = armed_lane(waiting=3)
    first, *rest = others
    assert holder.channel.wakes == {holder.page.successor: True}
    assert first.channel.wakes == {holder.page.successor: False}
    assert all(not other.channel.wakes and other.page.armed == (0, 0) for other in rest)


def test_a_pair_shares_one_wake_for_all_its_turns() -> None:
    _, holder, (other,) = armed_lane()
    for _ in range(6):
        turn = holder.page.turn
        assert leave(holder) is other
        other.begin_armed()
        release(holder, turn)
        holder, other = other, holder
    assert sorted(holder.channel.wakes.values()) == [False, True]


def test_a_process_that_wakes_early_and_does_not_release_gains_nothing() -> None:
    bench, holder, (other,) = armed_lane()
    turn = holder.page.turn
    holder.wake_successor()
    other.begin_armed()
    for _ in range(2):
        bench.clock.advance(0.25)
        bench.turns.scheduler.revoke_stalled()
    assert other.channel.sent[-1][:2] == ("revoke", turn + 1)
    assert bench.turns.scheduler.turns[holder.lease].contended_since_seconds is not None, "it is charged"
    assert not holder.lease.may_be_armed
    assert not other.lease.may_be_armed
    other.end()
    release(other, turn + 1)
    release(holder, turn)
    assert other.page.turn > turn + 1
    assert other.channel.sent[-1] == ("grant", other.page.turn)
    assert holder.page.armed == (0, 0), "the agent grants the turns of both from now on"


def test_a_forged_number_begins_no_turn() -> None:
    bench, holder, (first, second) = armed_lane(waiting=2)
    second.page.taken = holder.page.turn + 1
    second.page.inside = True
    turn = holder.page.turn
    leave(holder)
    release(holder, turn)
    assert set(bench.turns.scheduler.turns) == {first.lease}
    assert second.page.turn == 0


def test_a_successor_that_may_not_run_any_more_has_the_turn_that_it_began_and_is_asked_for_it() -> None:
    bench, holder, (other,) = armed_lane()
    late = bench.job("late", 10, 30)
    turn = holder.page.turn
    leave(holder)
    other.begin_armed()
    other.lease.blocked = True
    late.request()
    release(holder, turn, again=False)
    assert other.page.turn == turn + 1
    assert other.asked_to_yield
    assert not late.holds_turn, "the successor is inside its iteration"
    other.end()
    other.release()
    assert late.holds_turn


def test_a_change_of_lanes_during_a_hand_off_costs_no_turn() -> None:
    bench, holder, (other,) = armed_lane()
    turn = holder.page.turn
    leave(holder)
    other.begin_armed()
    bench.turns.scheduler.lanes_changed([other.lease])
    release(holder, turn)
    assert other.page.turn == turn + 1
    assert not bench.turns.scheduler.memory.pending


def test_a_successor_that_vanishes_after_it_was_woken_keeps_the_lane_until_it_is_outside() -> None:
    bench, holder, (other, third) = armed_lane(waiting=2)
    turn = holder.page.turn
    leave(holder)
    other.begin_armed()
    other.disconnect()
    release(holder, turn, again=False)
    assert not third.holds_turn
    bench.turns.process_ended(other.lease, other.session)
    assert third.holds_turn


def test_a_second_process_of_the_holder_disarms_the_successor() -> None:
    bench, holder, (other,) = armed_lane()
    sibling = bench.process(holder.lease)
    sibling.profile(10, 30)
    sibling.request()
    assert other.page.armed == (0, 0)
    assert holder.page.successor == 0


@pytest.mark.parametrize("who", ["holder", "other"])
def test_the_end_of_a_process_closes_the_wake_of_the_other(who: str) -> None:
    _, holder, (other,) = armed_lane()
    ends, stays = (holder, other) if who == "holder" else (other, holder)
    ends.die()
    assert stays.channel.wakes == {}
    assert other.page.armed == (0, 0) or other.holds_turn


def test_a_request_that_was_missed_at_a_boundary_is_repeated_within_milliseconds() -> None:
    bench = GPUBench(max_lanes=1)
    holder = bench.job("holder", 10, 30)
    holder.request()
    holder.begin()
    bench.turns.scheduler.request_yield(holder.lease)
    sent = holder.channel.sent.count(("yield", 1))
    holder.end()
    bench.clock.advance(0.01)
    assert holder.channel.sent.count(("yield", 1)) == sent + 1
