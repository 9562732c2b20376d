"""The remaining time of a script whose meter measures only some iterations."""

from __future__ import annotations

import pytest
from laneway.client.boundary import iteration_guard as guard_module
from laneway.client.memory.meter import NoMeter
from laneway.client.runtime import Client

MILLISECOND_NS = 1_000_000


class Clock:
    now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


class NowAndThen(NoMeter):
    """Measures the first iterations, and then one after each interval."""

    def __init__(self, clock: Clock, first: int, interval_ns: int) -> None:
        self._clock = clock
        self._first = first
        self._interval_ns = interval_ns
        self._next_ns = 0
        self.measured = 0

    def end(self) -> tuple[int, int] | None:
        if self.measured >= self._first and self._clock.now_ns < self._next_ns:
            return None
        self.measured += 1
        self._next_ns = self._clock.now_ns + self._interval_ns
        return 1 << 20, 2 << 20


@pytest.mark.parametrize(
    ("step_ns", "first", "interval_ns", "most_measured"),
    [
        pytest.param(20 * MILLISECOND_NS, 10, 500 * MILLISECOND_NS, 220, id="a GPU's statistics"),
        pytest.param(MILLISECOND_NS // 2, 16, 2 * MILLISECOND_NS, 1300, id="short steps on a CPU"),
    ],
)
def test_unmeasured_iterations_count_as_done(
    monkeypatch: pytest.MonkeyPatch, step_ns: int, first: int, interval_ns: int, most_measured: int
) -> None:
    clock = Clock()
    monkeypatch.setattr(guard_module, "monotonic_ns", clock)
    guard = Client(None).guard
    guard.meter = meter = NowAndThen(clock, first, interval_ns)
    guard.profiler.expect(10_000, guard.iterations)
    for _ in range(5_000):
        guard.begin()
        clock.now_ns += step_ns
        guard.end()
    assert first < meter.measured < most_measured
    again = guard.profiler.repeat(guard.iterations)
    assert again is not None
    assert again.remaining_seconds == pytest.approx(5_000 * step_ns / 1e9)
    guard.profiler.expect(1_000, guard.iterations)
    again = guard.profiler.repeat(guard.iterations)
    assert again is not None
    assert again.remaining_seconds == pytest.approx(1_000 * step_ns / 1e9), "it counts from here"
