"""Turns of the sessions that share one lane."""

from __future__ import annotations

from itertools import pairwise

import pytest
from laneway.node_agent.turns.session import NANOSECONDS

from tests.support.node_agent.gpu_bench import GPUBench, Process


def two_in_one_lane(**options: object) -> tuple[GPUBench, Process, Process]:
    bench = GPUBench(max_lanes=1, **options)  # type: ignore[arg-type]
    first, second = bench.job("a", 100, 300), bench.job("b", 100, 300)
    assert bench.lane_of(first) == bench.lane_of(second) == 0
    return bench, first, second


def iterate(process: Process, seconds: float) -> None:
    process.begin()
    process.bench.clock.advance(seconds)
    process.end()


def test_a_free_lane_is_granted_at_once() -> None:
    _, first, _ = two_in_one_lane()
    first.request()
    assert first.channel.sent == [("grant", 1)]


def test_a_holder_keeps_its_turn_while_nobody_waits() -> None:
    _, first, _ = two_in_one_lane()
    first.request()
    for _ in range(100):
        iterate(first, 0.05)
    assert first.channel.sent == [("grant", 1)]


def test_a_waiting_session_gets_the_turn_after_quantum_and_release() -> None:
    bench, first, second = two_in_one_lane()
    first.request()
    first.begin()
    second.request()
    bench.clock.advance(0.05)
    assert not first.asked_to_yield, "the quantum is not over"
    bench.clock.advance(0.06)
    assert first.asked_to_yield
    assert not second.holds_turn, "the lane has one turn at a time"
    first.end()
    first.release()
    assert second.channel.sent == [("grant", 2)]
    assert first.page.turn == 0


def test_a_turn_lasts_at_least_one_iteration() -> None:
    bench, first, second = two_in_one_lane(quantum_seconds=0.001)
    first.request()
    second.request()
    first.begin()
    bench.clock.advance(0.02)
    assert first.asked_to_yield
    assert first.page.inside, "it is asked, not interrupted"
    first.end()
    first.release()
    assert second.holds_turn


def test_an_idle_holder_yields_before_its_quantum_is_over() -> None:
    bench, first, second = two_in_one_lane(quantum_seconds=10)
    first.request()
    iterate(first, 0.01)
    second.request()
    bench.clock.advance(0.001)
    assert not first.asked_to_yield
    bench.clock.advance(0.002)
    assert first.asked_to_yield


def test_a_gap_filler_yields_when_the_preferred_session_returns() -> None:
    bench, first, second = two_in_one_lane(policy="pack", quantum_seconds=10)
    first.request()
    iterate(first, 0.01)
    second.request()
    bench.clock.advance(0.003)
    first.release()
    assert second.holds_turn
    second.begin()
    bench.clock.advance(0.01)
    first.request()
    bench.clock.advance(0.006)
    assert second.asked_to_yield, "PACK prefers who came first; the quantum does not protect a gap's filler"


def test_a_request_of_a_holder_is_answered_with_its_turn_again() -> None:
    _, first, _ = two_in_one_lane()
    first.request()
    first.request()
    assert first.channel.sent == [("grant", 1), ("grant", 1)]


def test_a_release_of_another_turn_changes_nothing() -> None:
    bench, first, _ = two_in_one_lane()
    first.request()
    bench.turns.scheduler.release(first.lease, first.session, 7, 1, 0.1)
    assert first.holds_turn


def test_a_holder_that_dies_frees_its_lane_at_once() -> None:
    bench, first, second = two_in_one_lane()
    first.request()
    first.begin()
    second.request()
    first.die()
    assert second.holds_turn
    assert [turn.end for turn in bench.log.turns] == ["died"]


def test_a_holder_that_stalls_loses_its_turn_in_time() -> None:
    bench, first, second = two_in_one_lane(timeout_seconds=5)
    first.request()
    first.begin()
    second.request()
    bench.clock.advance(0.2)
    assert first.asked_to_yield
    bench.clock.advance(4.7)
    bench.turns.scheduler.revoke_stalled()
    assert not second.holds_turn
    bench.clock.advance(0.5)
    bench.turns.scheduler.revoke_stalled()
    assert first.channel.sent[-1][0] == "revoke"
    assert bench.log.revoked == {"stalled": 1}
    assert "did not yield" in first.lease.last_event
    assert not second.holds_turn, "the first is inside an iteration and uses its memory"
    first.end()
    first.release()
    assert second.holds_turn


def test_a_revoked_session_gets_the_next_turn_when_it_asks() -> None:
    bench, first, second = two_in_one_lane(timeout_seconds=5)
    first.request()
    first.begin()
    second.request()
    bench.clock.advance(6)
    bench.turns.scheduler.revoke_stalled()
    first.end()
    first.request()
    iterate(second, 0.1)
    began = bench.clock.now
    while not second.asked_to_yield:
        iterate(second, 0.5)
        assert bench.clock.now - began < 8, "the time that the first had for itself, and no more"
    second.release()
    assert first.holds_turn


def test_goodbye_with_a_turn_counts_as_release() -> None:
    bench, first, second = two_in_one_lane()
    first.request()
    second.request()
    bench.turns.disconnect(first.lease, first.session, goodbye=True)
    assert second.holds_turn
    assert bench.log.turns[0].end == "released"


def test_records_of_one_lane_do_not_overlap_and_say_how_long_each_turn_was_waited_for() -> None:
    bench, first, second = two_in_one_lane(quantum_seconds=0.01)
    holder, other = first, second
    holder.request()
    for _ in range(50):
        other.request()
        holder.begin()
        bench.clock.advance(0.013)
        holder.end()
        holder.release()
        holder, other = other, holder
    records = list(bench.log.turns)
    assert [record.turn for record in records] == list(range(1, 51))
    assert [record.waited_seconds for record in records] == pytest.approx([0.0] + 49 * [0.013])
    for before, after in pairwise(records):
        assert before.end_seconds is not None
        assert before.end_seconds <= after.start_seconds


@pytest.mark.parametrize("iteration_seconds", [(0.02, 0.02), (0.02, 0.17), (0.5, 0.01)])
def test_fair_gives_equal_service_whatever_the_length_of_iterations(
    iteration_seconds: tuple[float, float],
) -> None:
    bench, *processes = two_in_one_lane()
    lengths = dict(zip(processes, iteration_seconds, strict=True))
    for process in processes:
        process.request()
    until = bench.clock.now + 200
    while bench.clock.now < until:
        holder = next(process for process in processes if process.holds_turn)
        iterate(holder, lengths[holder])
        if holder.asked_to_yield:
            holder.release()
            holder.request()
    services = [process.page.busy_ns / NANOSECONDS for process in processes]
    assert max(services) - min(services) <= 1.5 * max(iteration_seconds) + 0.2


def test_pack_keeps_the_first_until_the_second_is_overdue() -> None:
    bench, first, second = two_in_one_lane(policy="pack", starvation_seconds=5)
    first.request()
    second.request()
    began = bench.clock.now
    while not first.asked_to_yield:
        iterate(first, 0.05)
        assert bench.clock.now - began < 6
    assert bench.clock.now - began >= 5


def test_a_latecomer_does_not_catch_up_on_the_past() -> None:
    bench, first, second = two_in_one_lane()
    first.request()
    for _ in range(1000):
        iterate(first, 0.1)
    second.request()
    began = bench.clock.now
    while bench.clock.now < began + 10:
        holder = first if first.holds_turn else second
        iterate(holder, 0.05)
        if holder.asked_to_yield:
            holder.release()
            holder.request()
    assert second.page.busy_ns / NANOSECONDS == pytest.approx(5, abs=0.5)


def test_a_holder_that_claims_to_be_at_a_boundary_all_the_time_loses_its_turn() -> None:
    bench, liar, other = two_in_one_lane()
    liar.request()
    other.request()
    liar.page.boundary_ns = 1 << 62
    for _ in range(40):
        bench.clock.advance(0.01)
    assert liar.asked_to_yield


def test_a_session_that_claims_to_use_nothing_gets_no_more_than_its_share() -> None:
    bench, liar, other = two_in_one_lane()
    had = {liar: 0.0, other: 0.0}
    liar.request()
    other.request()
    until = bench.clock.now + 60
    while bench.clock.now < until:
        holder = liar if liar.holds_turn else other
        began = bench.clock.now
        iterate(holder, 0.05)
        had[holder] += bench.clock.now - began
        liar.page.busy_ns = 0
        if holder.asked_to_yield:
            holder.release()
            holder.request()
    assert had[liar] == pytest.approx(had[other], rel=0.05)


def test_a_false_iteration_time_does_not_delay_the_end_of_a_quantum() -> None:
    bench, liar, other = two_in_one_lane()
    liar.profile(100, 300, iteration_seconds=1e9)
    liar.request()
    liar.begin()
    other.request()
    bench.clock.advance(0.12)
    assert liar.asked_to_yield
