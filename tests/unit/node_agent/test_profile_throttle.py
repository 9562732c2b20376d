"""When a process's measurements reach the lanes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from laneway.node_agent.sessions.profile_throttle import GROW_SECONDS, SHRINK_SECONDS, ProfileThrottle
from laneway.node_agent.turns.session import Sizes

SMALL = Sizes(persistent_bytes=10, ephemeral_bytes=10, iteration_seconds=0.1)
LARGE = Sizes(persistent_bytes=90, ephemeral_bytes=90, iteration_seconds=0.2)
MIXED = Sizes(persistent_bytes=90, ephemeral_bytes=10, iteration_seconds=0.3)


def test_the_first_profile_counts_at_once_and_growth_soon() -> None:
    pace = ProfileThrottle()
    pace.offer(SMALL)
    assert pace.take(100.0) == SMALL
    assert pace.due_seconds is None
    pace.offer(LARGE)
    assert pace.take(100.05) is None
    assert pace.due_seconds == 100.0 + GROW_SECONDS
    assert pace.take(100.1) == LARGE


def test_fluctuating_sizes_count_with_the_highest() -> None:
    pace = ProfileThrottle()
    now_seconds, passed = 0.0, []
    while now_seconds < 9.9:
        pace.offer(SMALL if len(passed) % 2 else LARGE)
        passed.append(pace.take(now_seconds))
        now_seconds += 0.11
    memory = [sizes.persistent_bytes for sizes in passed if sizes is not None]
    assert sum(first > second for first, second in pairwise(memory)) == 1


def test_growth_counts_before_shrinking() -> None:
    pace = ProfileThrottle()
    for now_seconds, sizes in ((0.0, LARGE), (1.0, SMALL), (2.0, MIXED)):
        pace.offer(sizes)
        assert pace.take(now_seconds) == sizes
    pace.offer(replace(LARGE, persistent_bytes=20))
    assert pace.take(3.0) == LARGE
    assert pace.due_seconds == 1.0 + SHRINK_SECONDS
    assert pace.take(11.0) == replace(LARGE, persistent_bytes=20)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.floats(0, 4)), min_size=1, max_size=40))
def test_the_last_profile_counts_in_the_end_and_never_less_than_reported(
    steps: list[tuple[int, int, float]],
) -> None:
    pace, now_seconds, counts = ProfileThrottle(), 0.0, SMALL
    for persistent, ephemeral, pause_seconds in steps:
        now_seconds += pause_seconds
        last = Sizes(persistent, ephemeral)
        pace.offer(last)
        due_seconds = pace.due_seconds
        assert due_seconds is not None
        taken = pace.take(max(now_seconds, due_seconds) if pause_seconds > 2 else now_seconds)
        if taken is not None:
            counts = taken
            assert counts.persistent_bytes >= persistent
            assert counts.ephemeral_bytes >= ephemeral
    while pace.due_seconds is not None:
        counts = pace.take(pace.due_seconds) or counts
    assert counts == last
