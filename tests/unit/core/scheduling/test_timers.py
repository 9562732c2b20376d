"""Each job has one timer."""

from __future__ import annotations

import math

from laneway.scheduling.state.timers import Timers


def test_a_new_moment_replaces_the_one_before() -> None:
    timers = Timers()
    timers.put("a", 5.0)
    timers.put("b", 7.0)
    timers.put("a", 9.0)
    assert timers.next_seconds() == 7.0
    assert timers.pop_due(8.0) == {"b"}
    assert timers.pop_due(9.0) == {"a"}
    assert timers.next_seconds() == math.inf


def test_a_moment_that_has_come_is_not_set_again() -> None:
    timers = Timers()
    timers.put("a", 5.0)
    assert timers.pop_due(5.0) == {"a"}
    timers.put("a", 5.0)
    assert timers.pop_due(6.0) == set()


def test_who_is_forgotten_or_has_no_moment_is_never_due() -> None:
    timers = Timers()
    timers.put("gone", 5.0)
    timers.forget("gone")
    timers.put("none", 6.0)
    timers.put("none", math.inf)
    assert timers.pop_due(math.inf) == set()


def test_replaced_timers_do_not_pile_up() -> None:
    timers = Timers()
    for cycle in range(10_000):
        timers.put("job", 1e9 + cycle % 2)
        timers.forget("job")
        timers.put("job", 1e9)
    assert len(timers._heap) < 200
    assert timers.next_seconds() == 1e9
    assert timers.pop_due(2e9) == {"job"}


def test_a_timer_is_hastened_and_never_put_off() -> None:
    timers = Timers()
    timers.hasten("a", 5.0)
    timers.hasten("a", 9.0)
    assert timers.next_seconds() == 5.0
    timers.hasten("a", 3.0)
    assert timers.next_seconds() == 3.0


def test_the_first_that_is_due_stays_so_until_it_is_forgotten_or_set_again() -> None:
    timers = Timers()
    for key, at_seconds in (("a", 5.0), ("b", 7.0), ("c", 6.0)):
        timers.put(key, at_seconds)
    assert timers.first_due(4.0) is None
    assert timers.first_due(7.0) == timers.first_due(7.0) == "a"
    timers.forget("a")
    assert timers.first_due(7.0) == "c"
    timers.put("c", 8.0)
    assert timers.first_due(7.0) == "b"
