"""Bounds on turns under every policy: their length, the wait for them, and revocation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laneway.lanes.turns import TURN_POLICIES

from tests.support.node_agent.gpu_bench import GPUBench, Process
from tests.support.property_examples import examples

POLICIES = sorted(TURN_POLICIES)
LOOK_SECONDS = 0.006
"""How late the end of a quantum may be noticed: the agent checks every 5 ms."""

patient = settings(max_examples=examples(25))


def lane_of(bench: GPUBench, count: int) -> list[Process]:
    """Processes that share one lane and all want turns."""
    processes = [bench.job(f"p{number}", 50, 300, percent=100) for number in range(count)]
    assert {bench.lane_of(process) for process in processes} == {0}
    return processes


def run(bench: GPUBench, iteration_seconds: dict[Process, float], until_seconds: float) -> float:
    """Let all run as often as they get turns; return the longest that one waited for a turn."""
    since = dict.fromkeys(iteration_seconds, bench.clock.now)
    for process in iteration_seconds:
        process.request()
    until, longest = bench.clock.now + until_seconds, 0.0
    while bench.clock.now < until:
        holder = next(process for process in iteration_seconds if process.holds_turn)
        longest = max(longest, bench.clock.now - since[holder])
        while holder.holds_turn:
            holder.begin()
            bench.clock.advance(iteration_seconds[holder])
            holder.end()
            since[holder] = bench.clock.now
            if holder.asked_to_yield:
                holder.release()
                holder.request()
            if holder.holds_turn and bench.clock.now >= until:
                break
    return longest


@patient
@given(
    policy=st.sampled_from(POLICIES),
    quantum_seconds=st.sampled_from([0.001, 0.02, 0.1, 1.0]),
    lengths=st.lists(st.sampled_from([0.003, 0.01, 0.05, 0.3]), min_size=2, max_size=4),
)
def test_a_turn_lasts_its_quantum_up_to_the_end_of_an_iteration(
    policy: str, quantum_seconds: float, lengths: list[float]
) -> None:
    bench = GPUBench(
        max_lanes=1, policy=policy, quantum_seconds=quantum_seconds, starvation_seconds=quantum_seconds / 2
    )
    processes = lane_of(bench, len(lengths))
    run(bench, dict(zip(processes, lengths, strict=True)), 20 * len(lengths) * (quantum_seconds + 0.1))
    assert len(bench.log.turns) > len(lengths)
    by_pod = dict(zip((process.lease.record.pod for process in processes), lengths, strict=True))
    ahead = dict.fromkeys(by_pod, 0.0)
    for turn in bench.log.turns:
        assert turn.end_seconds is not None
        lasted = turn.end_seconds - turn.start_seconds
        assert lasted >= min(by_pod[turn.pod], quantum_seconds) - 1e-6, "at least one iteration"
        assert round(lasted / by_pod[turn.pod]) >= 1
        if policy == "fair":
            ahead[turn.pod] += lasted - quantum_seconds
            assert ahead[turn.pod] >= -1e-5, "a turn is shortened only by what earlier turns ran over"
        else:
            assert lasted >= quantum_seconds - 1e-6, "not before its quantum is over"
        assert lasted <= quantum_seconds + LOOK_SECONDS + by_pod[turn.pod] + 1e-6, (
            "another session waits, so the turn ends at the next boundary"
        )


@patient
@given(
    policy=st.sampled_from(POLICIES),
    lengths=st.lists(st.sampled_from([0.003, 0.01, 0.05, 0.3]), min_size=2, max_size=4),
    starvation_seconds=st.sampled_from([0.5, 2.0]),
)
def test_no_session_waits_longer_than_the_bound_and_a_turn_of_each(
    policy: str, lengths: list[float], starvation_seconds: float
) -> None:
    bench = GPUBench(max_lanes=1, policy=policy, quantum_seconds=0.1, starvation_seconds=starvation_seconds)
    processes = lane_of(bench, len(lengths))
    longest = run(bench, dict(zip(processes, lengths, strict=True)), 10 * starvation_seconds)
    turn_of_each = sum(0.1 + LOOK_SECONDS + length for length in lengths)
    assert longest <= starvation_seconds + turn_of_each


@pytest.mark.parametrize("policy", POLICIES)
def test_a_holder_that_ignores_yield_requests_is_revoked_within_the_bound(policy: str) -> None:
    bench = GPUBench(max_lanes=1, policy=policy, timeout_seconds=5, starvation_seconds=1)
    greedy, other = lane_of(bench, 2)
    greedy.request()
    other.request()
    asked = None
    while greedy.holds_turn:
        greedy.begin()
        bench.clock.advance(0.2)
        greedy.end()
        if greedy.asked_to_yield and asked is None:
            asked = bench.clock.now
        bench.turns.scheduler.revoke_stalled()
        assert asked is None or bench.clock.now - asked <= 5.5
    kind, turn, reason = greedy.channel.sent[-1]
    assert (kind, turn) == ("revoke", 1)
    assert "did not yield within 5 s" in str(reason)
    assert greedy.page.turn == 0, "a client that reads nothing sees it on the page"
    assert ("p0", "TurnRevoked", greedy.lease.last_event) in bench.notes
    assert bench.log.turns[-1].end == "revoked"
    assert not other.holds_turn
    greedy.release()
    assert other.holds_turn


@pytest.mark.parametrize("policy", POLICIES)
def test_the_lane_continues_when_its_holder_dies(policy: str) -> None:
    bench = GPUBench(max_lanes=1, policy=policy)
    holder, other = lane_of(bench, 2)
    holder.request()
    other.request()
    holder.begin()
    holder.die()
    assert other.holds_turn
    other.begin()
    bench.clock.advance(0.1)
    other.end()
    other.release()
    other.request()
    assert other.holds_turn
