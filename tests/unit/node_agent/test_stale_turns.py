"""Turns that an earlier lane table or an earlier agent process granted, beside those that are granted now."""

from __future__ import annotations

from tests.support.node_agent.gpu_bench import GPUBench, Process


def running(bench: GPUBench, pod: str) -> Process:
    process = bench.job(pod, 10, 300)
    process.request()
    process.begin()
    return process


def stop(process: Process) -> None:
    process.end()
    process.release()


def three_turns_of_two_lanes() -> tuple[Process, Process, Process]:
    """The third process grows in its turn, and its lease moves into the first one's lane."""
    bench = GPUBench()
    first, second, third = (running(bench, pod) for pod in ("first", "second", "third"))
    assert [bench.lane_of(each) for each in (first, second, third)] == [0, 1, 2]
    third.profile(10, 600)
    assert [bench.lane_of(each) for each in (first, second, third)] == [0, 1, 0]
    return first, second, third


def test_a_turn_waits_until_memory_covers_it_beside_turns_of_an_earlier_table() -> None:
    first, second, third = three_turns_of_two_lanes()
    stop(second)
    second.request()
    assert not second.holds_turn, "its lane is free, but 300 + 300 + 600 MiB exceed the GPU"
    stop(first)
    assert second.holds_turn
    assert third.holds_turn


def test_a_lane_is_occupied_by_the_turns_of_leases_that_moved_into_it() -> None:
    first, second, third = three_turns_of_two_lanes()
    assert third.asked_to_yield
    stop(first)
    first.request()
    assert not first.holds_turn, "the third one's turn, granted in another lane, still runs"
    stop(third)
    assert first.holds_turn
    assert second.holds_turn


def test_only_during_recovery_does_a_process_keep_an_earlier_turn() -> None:
    bench = GPUBench()
    process = bench.job("a", 10, 300)
    assert not bench.turns.scheduler.adopt(process.lease, process.session)
    assert not process.holds_turn


def test_during_recovery_all_processes_of_a_turn_keep_it_and_nobody_else_gets_one() -> None:
    bench = GPUBench(max_lanes=1)
    scheduler = bench.turns.scheduler
    first = bench.job("a", 10, 300)
    second = bench.process(first.lease)
    other = bench.job("b", 10, 300)
    scheduler.awaiting_recovery = True
    other.request()
    assert scheduler.adopt(first.lease, first.session)
    assert scheduler.adopt(first.lease, second.session)
    assert (first.page.turn, second.page.turn) == (1, 1)
    assert first.session.has_run
    assert second.session.has_run
    scheduler.finish_recovery()
    assert not other.holds_turn
    first.release()
    assert not other.holds_turn, "the second process still holds the turn"
    second.release()
    assert other.holds_turn
    assert [turn.pod for turn in bench.log.turns] == ["a"]


def test_a_stalled_turn_is_revoked_although_an_earlier_one_was_never_asked_to_yield() -> None:
    bench = GPUBench(policy="srtf", timeout_seconds=5)
    calm = running(bench, "calm")
    stalled = bench.job("stalled", 10, 600)
    stalled.request()
    stalled.begin()
    waiting = bench.job("waiting", 10, 600)
    waiting.request()
    assert bench.lane_of(waiting) == bench.lane_of(stalled) != bench.lane_of(calm)
    bench.clock.advance(1)
    assert stalled.asked_to_yield
    assert not calm.asked_to_yield
    bench.clock.advance(5)
    bench.turns.scheduler.revoke_stalled()
    assert [each.holds_turn for each in (calm, stalled, waiting)] == [True, False, False]
    stop(stalled)
    assert [each.holds_turn for each in (calm, stalled, waiting)] == [True, False, True]
