"""Which iterations are watched: all near the limit and while the process grows, few of those that are all alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from laneway.client.watch_schedule import (
    FIRST_ITERATIONS,
    IN_A_ROW,
    LONGEST_REST_NS,
    NEAR_PERCENT,
    REST_RATIO,
    WatchSchedule,
)

LIMIT = 1000
STEP_NS = 20_000_000


class Run:
    """Iterations of one length, one after the other."""

    def __init__(self, step_ns: int = STEP_NS, longer_ns: int = STEP_NS // 10) -> None:
        self.schedule = WatchSchedule()
        self.step_ns = step_ns
        self.longer_ns = longer_ns
        self.now_ns = 1

    def iterate(self, count: int, highest_bytes: int = 100) -> list[bool]:
        """Returns which of them were watched."""
        watched = []
        for _ in range(count):
            watched.append(self.schedule.is_due(self.now_ns, LIMIT))
            self.now_ns += self.step_ns
            if watched[-1]:
                self.now_ns += self.longer_ns
                self.schedule.watched(self.now_ns, self.longer_ns, highest_bytes)
        return watched


def test_the_first_iterations_are_watched_and_then_two_now_and_then() -> None:
    watched = Run().iterate(200)
    assert all(watched[:FIRST_ITERATIONS])
    rest = "".join("x" if each else "." for each in watched[FIRST_ITERATIONS:])
    assert set(rest.split(".")) <= {"", "x" * IN_A_ROW}
    assert 2 <= rest.count("x" * IN_A_ROW) <= 5


@given(st.integers(1, 10**8), st.integers(0, 3 * 10**7))
def test_watching_takes_little_of_the_time_however_long_it_takes(step_ns: int, longer_ns: int) -> None:
    run = Run(step_ns, longer_ns)
    run.iterate(FIRST_ITERATIONS)
    began_ns = run.now_ns
    watched = sum(run.iterate(500))
    assert longer_ns * watched <= (run.now_ns - began_ns) / REST_RATIO + IN_A_ROW * longer_ns


def test_one_that_is_disturbed_for_long_is_looked_at_again_all_the_same() -> None:
    run = Run(longer_ns=10**12)
    run.iterate(FIRST_ITERATIONS)
    assert any(run.iterate(LONGEST_REST_NS // STEP_NS + 1))


def test_a_job_near_its_limit_is_always_watched() -> None:
    run = Run()
    assert all(run.iterate(300, LIMIT * NEAR_PERCENT // 100 + 10))
    run.iterate(FIRST_ITERATIONS)
    assert not all(run.iterate(30))


def test_kinds_of_iterations_that_alternate_are_near_the_limit_together() -> None:
    run = Run()
    for _ in range(200):
        assert all(run.iterate(1, LIMIT - 1) + run.iterate(1))


def test_one_that_has_grown_is_watched_twice_as_long_each_time() -> None:
    run = Run()
    run.iterate(FIRST_ITERATIONS + 1)
    lengths = []
    for _ in range(4):
        run.schedule.grown()
        lengths.append(run.iterate(1000).index(False))
    assert lengths == [FIRST_ITERATIONS * factor for factor in (1, 2, 4, 8)]


def test_only_two_in_a_row_are_brief() -> None:
    run = Run()
    seen = []
    for _ in range(200):
        if run.iterate(1)[0]:
            seen.append((run.schedule.is_brief, run.schedule.is_first_of_two))
    assert seen[:FIRST_ITERATIONS] == [(False, False)] * FIRST_ITERATIONS
    assert seen[FIRST_ITERATIONS : FIRST_ITERATIONS + 4] == [(True, True), (True, False)] * 2
    run.schedule.grown()
    assert not run.schedule.is_brief
