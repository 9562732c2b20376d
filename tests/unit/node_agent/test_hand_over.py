"""From one turn to the next: the heir that was chosen when the holder was asked to yield, and what may happen to it meanwhile."""

from __future__ import annotations

from tests.unit.node_agent.gpu_bench import GPUBench, Process


def holder_asked_to_yield(waiting: int) -> tuple[GPUBench, Process, list[Process]]:
    """A lane whose holder is inside an iteration and asked to yield, and others that wait, the first of them longest."""
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
    process.bench.turns.giver.release(process.hold, process.session, process.page.turn, 1, 0.0, again)


def test_the_longest_waiting_of_equals_is_next() -> None:
    _, holder, others = holder_asked_to_yield(3)
    release(holder)
    assert [other.holds for other in others] == [True, False, False]
    assert not holder.holds


def test_who_releases_and_asks_again_waits_for_the_next_turn() -> None:
    bench, holder, (other,) = holder_asked_to_yield(1)
    release(holder, again=True)
    assert other.holds
    assert holder.hold.view is not None
    bench.clock.advance(0.2)
    assert other.asked_to_yield
    release(other)
    assert holder.holds


def test_who_is_alone_and_asks_again_goes_on() -> None:
    bench = GPUBench(max_lanes=1)
    holder = bench.job("a", 10, 30)
    holder.request()
    release(holder, again=True)
    assert holder.line.sent == [("grant", 1), ("grant", 2)]


def test_asking_again_with_a_release_that_a_revocation_crossed_is_a_request() -> None:
    bench, holder, (other,) = holder_asked_to_yield(1)
    crossed = holder.page.turn
    bench.clock.advance(31)
    bench.turns.giver.revoke_stalled()
    assert other.holds
    bench.turns.giver.release(holder.hold, holder.session, crossed, 1, 0.0, again=True)
    release(other)
    assert holder.holds


def test_an_heir_that_has_gone_is_passed_over() -> None:
    _, holder, (first, second) = holder_asked_to_yield(2)
    first.die()
    release(holder)
    assert second.holds


def test_an_heir_that_is_held_back_is_passed_over() -> None:
    _, holder, (first, second) = holder_asked_to_yield(2)
    first.hold.held_back = True
    release(holder)
    assert not first.holds
    assert second.holds


def test_one_who_comes_after_the_choice_and_is_preferred_is_next() -> None:
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
    assert early.holds, "PACK prefers who came first"


def test_the_record_of_a_turn_that_was_handed_over_is_whole() -> None:
    bench, holder, _ = holder_asked_to_yield(1)
    release(holder)
    (record,) = bench.log.turns
    assert (record.pod, record.turn, record.iterations, record.end) == ("pod-0", 1, 1, "released")
    assert record.gpu_seconds > 0.2
    assert holder.hold.service_seconds >= record.gpu_seconds


def test_a_lane_that_two_processes_claimed_after_a_restart_is_free_only_when_both_have_released() -> None:
    bench = GPUBench(max_lanes=1)
    first, second, other = (bench.job(pod, 10, 30) for pod in ("first", "second", "other"))
    giver = bench.turns.giver
    giver.waits_for_survivors = True
    assert giver.adopt(first.hold, first.session)
    assert giver.adopt(second.hold, second.session)
    other.request()
    release(second)
    giver.survivors_are_back()
    assert not other.holds, "the first still runs"
    release(first)
    assert other.holds
