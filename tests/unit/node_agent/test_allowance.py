"""So many at once, and then so many a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.sessions.allowance import Allowance
from laneway.node_agent.sessions.limits import DESCRIPTORS_KEPT, Limits, processes_per_container


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_seconds = 0.0

    def monotonic(self) -> float:
        return self.now_seconds

    def realtime(self) -> float:
        return self.now_seconds


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(1, 5)), max_size=200))
def test_no_more_passes_than_was_at_once_twice_and_came_with_time(steps: list[tuple[float, int]]) -> None:
    clock = Clock()
    allowance = Allowance(20, 4, clock)
    passed = 0
    for pause_seconds, cost in steps:
        clock.now_seconds += pause_seconds
        if allowance.take(cost):
            passed += cost
    assert passed <= 2 * 20 + 4 * clock.now_seconds


def test_what_was_refused_costs_nothing_and_passes_when_it_was_said_to() -> None:
    clock = Clock()
    allowance = Allowance(10, 2, clock)
    assert allowance.take(9)
    for _ in range(100):
        assert not allowance.take(3)
    assert allowance.seconds_until(3) == 1.0
    clock.now_seconds = 1.0
    assert allowance.take(3)


def test_what_is_given_adds_up_to_no_more_than_at_once() -> None:
    allowance = Allowance(10, 1, Clock())
    for _ in range(1000):
        allowance.give(3)
    assert allowance.take(10)
    assert not allowance.take(1)


@given(st.integers(1, 5000), st.integers(1024, 1 << 20))
def test_containers_share_the_descriptors_evenly(containers: int, descriptors: int) -> None:
    most = processes_per_container(Limits(), containers, descriptors)
    assert 1 <= most <= Limits().processes
    assert most == 1 or 3 * most * containers <= descriptors - DESCRIPTORS_KEPT
