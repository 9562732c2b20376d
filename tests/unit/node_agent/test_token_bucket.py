"""Token buckets and limits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.sessions.token_bucket import TokenBucket

from tests.unit.node_agent.manual_clock import ManualClock


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 5)), max_size=200))
def test_at_most_twice_the_burst_plus_the_rate_passes(steps: list[tuple[float, int]]) -> None:
    clock = ManualClock()
    allowance = TokenBucket(20, 4, clock)
    passed = 0
    for pause_seconds, cost in steps:
        clock.now_seconds += pause_seconds
        if allowance.take(cost):
            passed += cost
    assert passed <= 2 * 20 + 4 * clock.now_seconds


def test_a_refused_take_costs_nothing_and_passes_at_the_predicted_time() -> None:
    clock = ManualClock()
    allowance = TokenBucket(10, 2, clock)
    assert allowance.take(9)
    for _ in range(100):
        assert not allowance.take(3)
    assert allowance.seconds_until(3) == 1.0
    clock.now_seconds = 1.0
    assert allowance.take(3)


def test_refunds_add_up_to_no_more_than_the_burst() -> None:
    allowance = TokenBucket(10, 1, ManualClock())
    for _ in range(1000):
        allowance.refund(3)
    assert allowance.take(10)
    assert not allowance.take(1)
