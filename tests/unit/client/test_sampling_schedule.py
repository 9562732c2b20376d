"""Which iterations are traced: all of them near the limit and while the process grows, otherwise few."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from laneway.client.memory.sampling_schedule import (
    FIRST_ITERATIONS,
    IN_A_ROW,
    MAX_INTERVAL_NS,
    NEAR_PERCENT,
    OVERHEAD_RATIO,
    SamplingSchedule,
)

LIMIT = 1000
STEP_NS = 20_000_000


class Run:
    """Iterations of equal duration."""

    def __init__(self, step_ns: int = STEP_NS, overhead_ns: int = STEP_NS // 10) -> None:
        self.schedule = SamplingSchedule()
        self.step_ns = step_ns
        self.overhead_ns = overhead_ns
        self.now_ns = 1

    def iterate(self, count: int, highest_bytes: int = 100) -> list[bool]:
        """Returns which of them were traced."""
        traced = []
        for _ in range(count):
            traced.append(self.schedule.is_due(self.now_ns, LIMIT))
            self.now_ns += self.step_ns
            if traced[-1]:
                self.now_ns += self.overhead_ns
                self.schedule.on_sampled(self.now_ns, self.overhead_ns, highest_bytes)
        return traced


def test_the_first_iterations_are_traced_and_then_two_now_and_then() -> None:
    traced = Run().iterate(200)
    assert all(traced[:FIRST_ITERATIONS])
    rest = "".join("x" if each else "." for each in traced[FIRST_ITERATIONS:])
    assert set(rest.split(".")) <= {"", "x" * IN_A_ROW}
    assert 2 <= rest.count("x" * IN_A_ROW) <= 5


@given(st.integers(1, 10**8), st.integers(0, 3 * 10**7))
def test_tracing_takes_a_small_part_of_the_time_whatever_its_cost(step_ns: int, overhead_ns: int) -> None:
    run = Run(step_ns, overhead_ns)
    run.iterate(FIRST_ITERATIONS)
    began_ns = run.now_ns
    traced = sum(run.iterate(500))
    assert overhead_ns * traced <= (run.now_ns - began_ns) / OVERHEAD_RATIO + IN_A_ROW * overhead_ns


def test_a_long_disturbance_does_not_stop_sampling() -> None:
    run = Run(overhead_ns=10**12)
    run.iterate(FIRST_ITERATIONS)
    assert any(run.iterate(MAX_INTERVAL_NS // STEP_NS + 1))


def test_a_job_near_its_limit_is_always_traced() -> None:
    run = Run()
    assert all(run.iterate(300, LIMIT * NEAR_PERCENT // 100 + 10))
    run.iterate(FIRST_ITERATIONS)
    assert not all(run.iterate(30))


def test_alternating_kinds_of_iterations_are_near_the_limit_together() -> None:
    run = Run()
    for _ in range(200):
        assert all(run.iterate(1, LIMIT - 1) + run.iterate(1))


def test_a_growing_job_is_traced_twice_as_long_each_time() -> None:
    run = Run()
    run.iterate(FIRST_ITERATIONS + 1)
    lengths = []
    for _ in range(4):
        run.schedule.on_growth()
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
    run.schedule.on_growth()
    assert not run.schedule.is_brief
