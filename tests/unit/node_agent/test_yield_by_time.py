"""A holder knows the end of its quantum in advance: it yields by itself, without waking the agent."""

from __future__ import annotations

import pytest
from laneway.node_agent.turns.session import NANOSECONDS

from tests.support.node_agent.gpu_bench import GPUBench, Process


def contended(policy: str = "fair", quantum_seconds: float = 0.004) -> tuple[GPUBench, Process, Process]:
    """A lane whose holder is inside an iteration while another one waits."""
    bench = GPUBench(max_lanes=1, policy=policy, quantum_seconds=quantum_seconds)
    holder, other = bench.job("holder", 10, 30), bench.job("other", 10, 30)
    holder.request()
    holder.begin()
    bench.clock.advance(0.001)
    other.request()
    return bench, holder, other


def release(process: Process) -> None:
    process.bench.turns.scheduler.release(process.lease, process.session, process.page.turn, 1, 0.0, True)


def test_the_page_says_when_the_quantum_ends() -> None:
    bench, holder, _ = contended()
    assert holder.page.yields_from_ns == round((bench.clock.now - 0.001 + 0.004) * NANOSECONDS)
    assert not holder.asked_to_yield, "not yet"
    bench.clock.advance(0.0035)
    assert holder.asked_to_yield
    assert ("yield", 1) not in holder.channel.sent, "no packet was needed"


def test_a_holder_that_yields_in_time_hands_off_and_is_credited() -> None:
    bench, holder, other = contended()
    bench.clock.advance(0.0035)
    holder.end()
    release(holder)
    assert other.holds_turn
    assert ("excuse",) in holder.channel.sent
    assert holder.lease.kept_waiting_seconds == pytest.approx(0.0035)
    assert other.page.yields_from_ns > bench.clock.now * NANOSECONDS, "the next one is told at once"


def test_a_turn_that_ends_before_its_check_wakes_the_agent_no_more() -> None:
    bench, holder, other = contended()
    assert bench.clock.timers_pending == 1
    bench.clock.advance(0.0005)
    holder.end()
    holder.release()
    assert other.holds_turn
    assert bench.clock.timers_pending == 0, "nobody waits any more, so no holder is watched"


def test_a_check_that_other_turns_share_takes_place() -> None:
    bench = GPUBench(max_lanes=2, quantum_seconds=0.004)
    jobs = [bench.job(f"pod-{number}", 10, 30) for number in range(4)]
    for job in jobs:
        job.request()
    first, second = [job for job in jobs if job.holds_turn]
    first.begin()
    second.begin()
    first.end()
    first.release()
    bench.clock.advance(0.0105)
    assert bench.turns.scheduler.turns[second.lease].yield_requested_seconds is not None


def test_an_early_release_is_not_credited() -> None:
    _, holder, other = contended()
    holder.end()
    release(holder)
    assert other.holds_turn
    assert ("excuse",) not in holder.channel.sent


def test_a_holder_inside_an_iteration_is_late_before_it_is_asked() -> None:
    """Its page says when to yield, so a packet at once would only wake it."""
    bench, holder, _ = contended()
    bench.clock.advance(0.0095)
    turn = bench.turns.scheduler.turns[holder.lease]
    assert turn.yield_requested_seconds is not None, "it loses its turn if this lasts"
    assert ("yield", 1) not in holder.channel.sent
    bench.clock.advance(0.005)
    assert ("yield", 1) in holder.channel.sent


def test_checks_of_many_lanes_share_timers() -> None:
    bench = GPUBench(max_lanes=8)
    processes = [bench.job(f"pod-{number}", 1, 30, percent=10) for number in range(24)]
    for process in processes:
        process.request()
    holders = [process for process in processes if process.holds_turn]
    assert len(holders) == 8
    for holder in holders:
        holder.begin()
    set_before = bench.clock.timers_set
    bench.clock.advance(0.02)
    assert 0 < bench.clock.timers_set - set_before <= 4, "one for each 5 ms, whatever the number of lanes"


def test_a_holder_that_does_not_yield_in_time_is_asked() -> None:
    bench, holder, _ = contended()
    bench.clock.advance(0.02)
    assert ("yield", 1) in holder.channel.sent
    holder.end()
    release(holder)
    assert holder.lease.kept_waiting_seconds == pytest.approx(0.02)


def test_an_idle_holder_is_asked_before_its_time() -> None:
    bench, holder, other = contended(quantum_seconds=1.0)
    holder.end()
    bench.clock.advance(0.01)
    assert ("yield", 1) in holder.channel.sent
    release(holder)
    assert other.holds_turn


def test_a_preferred_holder_is_not_asked_to_yield() -> None:
    bench, holder, other = contended(policy="pack")
    assert holder.page.yields_from_ns == 0, "PACK goes on with who came first"
    bench.clock.advance(0.05)
    assert not holder.asked_to_yield
    assert not other.holds_turn


def test_processes_of_one_container_yield_together() -> None:
    """If each yielded at its own boundary, one would always rejoin for the other's iteration, and both would never be out."""
    bench = GPUBench(max_lanes=1, quantum_seconds=0.004)
    lease = bench.container("ranks")
    ranks = [bench.process(lease), bench.process(lease)]
    other = bench.job("other", 10, 30)
    for rank in ranks:
        rank.profile(10, 30)
        rank.request()
        rank.begin()
    other.request()
    assert [rank.page.yields_from_ns for rank in ranks] == [0, 0]
    bench.clock.advance(0.02)
    assert all(rank.asked_to_yield for rank in ranks)
