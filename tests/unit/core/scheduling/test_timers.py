"""Each job has one moment."""

from __future__ import annotations

import math

from laneway.scheduling.timers import Timers


def test_a_new_moment_replaces_the_one_before() -> None:
    timers = Timers()
    timers.put("a", 5.0)
    timers.put("b", 7.0)
    timers.put("a", 9.0)
    assert timers.next_seconds() == 7.0
    assert timers.take_due(8.0) == {"b"}
    assert timers.take_due(9.0) == {"a"}
    assert timers.next_seconds() == math.inf


def test_a_moment_that_has_come_is_not_set_again() -> None:
    timers = Timers()
    timers.put("a", 5.0)
    assert timers.take_due(5.0) == {"a"}
    timers.put("a", 5.0)
    assert timers.take_due(6.0) == set()


def test_who_is_forgotten_or_has_no_moment_is_never_due() -> None:
    timers = Timers()
    timers.put("gone", 5.0)
    timers.forget("gone")
    timers.put("none", 6.0)
    timers.put("none", math.inf)
    assert timers.take_due(math.inf) == set()
