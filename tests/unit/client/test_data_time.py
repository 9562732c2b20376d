"""The time between iterations in which a script fetches its data, as the gate measures it."""

from __future__ import annotations

import pytest
from laneway.client import gate as gate_module
from laneway.client.page import DATA_NS
from laneway.client.runtime import Client


class Clock:
    now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


def test_the_time_between_iterations_counts_and_the_wait_for_a_turn_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(gate_module, "monotonic_ns", clock)
    gate = Client(None).gate
    observed: list[int] = []
    monkeypatch.setattr(gate.meter, "end", lambda: (1, 1), raising=False)
    monkeypatch.setattr(gate.profiler, "observe", lambda *figures: observed.append(figures[-1]))

    def wait_for_turn(_patience: object) -> int:
        clock.now_ns += 40
        return 1

    monkeypatch.setattr(gate.session, "acquire", wait_for_turn)

    def iteration(after_ns: int, *, waits: bool = False, trained: bool = True) -> None:
        clock.now_ns += after_ns
        if waits:
            gate.session.box.clear()
        gate.begin()
        clock.now_ns += 100
        gate.end(trained)

    iteration(5_000)
    assert gate.data_ns == 0, "before the first one the script starts"
    iteration(7)
    iteration(11, waits=True)
    iteration(13, trained=False)
    assert observed == [0, 7, 11, 13]
    assert gate.session.words[DATA_NS] == gate.data_ns == 31
    assert gate.busy_ns == 400
