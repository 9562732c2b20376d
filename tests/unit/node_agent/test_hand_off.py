"""Hand-offs: the next holder chosen with the request to yield, and what may happen to it meanwhile."""

from __future__ import annotations

from tests.support.node_agent.gpu_bench import GPUBench, Process


def holder_asked_to_yield(waiting: int) -> tuple[GPUBench, Process, list[Process]]:
    """A lane whose holder is inside an iteration and asked to yield, and others that wait, the first of
    them longest."""
    bench = GPUBench(max_lanes=1)
    holder, *others = [bench.job(f"pod-{number}", 10, 30) for number in range(waiting + 1)]
    holder.request()
    holder.begin()
    for other in others:
        bench.clock.advance(0.01)
        other.request()
    bench.clock.advance(0.2)
    assert holder.asked_to_yield
    holder.end()
    return bench, holder, others


def release(process: Process, again: bool = False) -> None:
    process.bench.turns.scheduler.release(process.lease, process.session, process.page.turn, 1, 0.0, again)


def test_the_longest_waiting_of_equals_is_next() -> None:
    _, holder, others = holder_asked_to_yield(3)
    release(holder)
    assert [other.holds_turn for other in others] == [True, False, False]
    assert not holder.holds_turn


def test_a_session_that_releases_with_again_waits_for_the_next_turn() -> None:
    bench, holder, (other,) = holder_asked_to_yield(1)
    release(holder, again=True)
    assert other.holds_turn
    assert holder.lease.view is not None
    bench.clock.advance(0.2)
    assert other.asked_to_yield
    release(other)
    assert holder.holds_turn


def test_a_lone_session_that_releases_with_again_continues() -> None:
    bench = GPUBench(max_lanes=1)
    holder = bench.job("a", 10, 30)
    holder.request()
    release(holder, again=True)
    assert holder.channel.sent == [("grant", 1), ("grant", 2)]


def test_a_release_with_again_after_a_revocation_is_a_request() -> None:
    bench, holder, (other,) = holder_asked_to_yield(1)
    crossed = holder.page.turn
    bench.clock.advance(31)
    bench.turns.scheduler.revoke_stalled()
    assert not other.holds_turn, "the holder may still use its memory"
    bench.turns.scheduler.release(holder.lease, holder.session, crossed, 1, 0.0, again=True)
    assert other.holds_turn
    release(other)
    assert holder.holds_turn


def test_a_next_holder_that_has_ended_is_skipped() -> None:
    _, holder, (first, second) = holder_asked_to_yield(2)
    first.die()
    release(holder)
    assert second.holds_turn


def test_a_blocked_next_holder_is_skipped() -> None:
    _, holder, (first, second) = holder_asked_to_yield(2)
    first.lease.blocked = True
    release(holder)
    assert not first.holds_turn
    assert second.holds_turn


def test_a_preferred_latecomer_becomes_the_next_holder() -> None:
    bench = GPUBench(max_lanes=1, policy="pack")
    early = bench.job("early", 10, 30)
    bench.clock.advance(1)
    holder, late = bench.job("holder", 10, 30), bench.job("late", 10, 30)
    holder.request()
    holder.begin()
    bench.clock.advance(0.01)
    holder.end()
    late.request()
    bench.clock.advance(0.01)
    assert holder.asked_to_yield, "its lane lies idle"
    early.request()
    release(holder)
    assert early.holds_turn, "PACK prefers who came first"


def test_the_record_of_a_handed_off_turn_is_complete() -> None:
    bench, holder, _ = holder_asked_to_yield(1)
    release(holder)
    (record,) = bench.log.turns
    assert (record.pod, record.turn, record.iterations, record.end) == ("pod-0", 1, 1, "released")
    assert record.gpu_seconds > 0.2
    assert holder.lease.service_seconds >= record.gpu_seconds


def test_a_lane_that_two_processes_claimed_after_a_restart_is_free_only_when_both_have_released() -> None:
    bench = GPUBench(max_lanes=1)
    first, second, other = (bench.job(pod, 10, 30) for pod in ("first", "second", "other"))
    scheduler = bench.turns.scheduler
    scheduler.awaiting_recovery = True
    assert scheduler.adopt(first.lease, first.session)
    assert not scheduler.adopt(second.lease, second.session), "the lane has a holder"
    other.request()
    scheduler.finish_recovery()
    release(first)
    assert not other.holds_turn, "the second may be inside an iteration as well"
    release(second)
    assert other.holds_turn
