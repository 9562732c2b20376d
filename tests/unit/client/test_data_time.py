"""The time between iterations in which a script fetches data, as the iteration guard measures it."""

from __future__ import annotations

import pytest
from laneway.client.boundary import iteration_guard as guard_module
from laneway.client.runtime import Client
from laneway.client.session.shared_page import DATA_NS


class Clock:
    now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns


def test_the_time_between_iterations_counts_and_the_wait_for_a_turn_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(guard_module, "monotonic_ns", clock)
    guard = Client(None).guard
    observed: list[int] = []
    monkeypatch.setattr(guard.meter, "end", lambda: (1, 1), raising=False)
    monkeypatch.setattr(guard.profiler, "observe", lambda *figures: observed.append(figures[-1]))

    def wait_for_turn(_get_timeout: object) -> int:
        clock.now_ns += 40
        return 1

    monkeypatch.setattr(guard.session, "acquire", wait_for_turn)

    def iteration(after_ns: int, *, waits: bool = False, trained: bool = True) -> None:
        clock.now_ns += after_ns
        if waits:
            guard.session.idle_turn.clear()
        guard.begin()
        clock.now_ns += 100
        guard.end(trained)

    iteration(5_000)
    assert guard.data_ns == 0, "before the first one the script starts"
    iteration(7)
    iteration(11, waits=True)
    iteration(13, trained=False)
    assert observed == [0, 7, 11, 13]
    assert guard.session.words[DATA_NS] == guard.data_ns == 31
    assert guard.busy_ns == 400
