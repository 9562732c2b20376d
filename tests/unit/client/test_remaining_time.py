"""What is left of a script, where the meter measures some of its iterations only."""

from __future__ import annotations

import pytest
from laneway.client import gate as gate_module
from laneway.client.memory_meter import NoMeter
from laneway.client.runtime import Client

MILLISECOND_NS = 1_000_000


class Clock:
    now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


class NowAndThen(NoMeter):
    """Measures the first iterations, and then one after each rest."""

    def __init__(self, clock: Clock, first: int, rest_ns: int) -> None:
        self._clock = clock
        self._first = first
        self._rest_ns = rest_ns
        self._next_ns = 0
        self.measured = 0

    def end(self) -> tuple[int, int] | None:
        if self.measured >= self._first and self._clock.now_ns < self._next_ns:
            return None
        self.measured += 1
        self._next_ns = self._clock.now_ns + self._rest_ns
        return 1 << 20, 2 << 20


@pytest.mark.parametrize(
    ("step_ns", "first", "rest_ns", "most_measured"),
    [
        pytest.param(20 * MILLISECOND_NS, 10, 500 * MILLISECOND_NS, 220, id="a GPU's statistics"),
        pytest.param(MILLISECOND_NS // 2, 16, 2 * MILLISECOND_NS, 1300, id="short steps on a CPU"),
    ],
)
def test_iterations_that_are_not_measured_are_done_all_the_same(
    monkeypatch: pytest.MonkeyPatch, step_ns: int, first: int, rest_ns: int, most_measured: int
) -> None:
    clock = Clock()
    monkeypatch.setattr(gate_module, "monotonic_ns", clock)
    gate = Client(None).gate
    gate.meter = meter = NowAndThen(clock, first, rest_ns)
    gate.profiler.expect(10_000, gate.iterations)
    for _ in range(5_000):
        gate.begin()
        clock.now_ns += step_ns
        gate.end()
    assert first < meter.measured < most_measured
    again = gate.profiler.again(gate.iterations)
    assert again is not None
    assert again.remaining_seconds == pytest.approx(5_000 * step_ns / 1e9)
    gate.profiler.expect(1_000, gate.iterations)
    again = gate.profiler.again(gate.iterations)
    assert again is not None
    assert again.remaining_seconds == pytest.approx(1_000 * step_ns / 1e9), "it counts from here"
