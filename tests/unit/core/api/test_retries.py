"""How long a follower of the API server waits between two tries."""

from __future__ import annotations

import pytest
from laneway.api.retries import RetryDelays, is_temporary


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_the_delays_double_up_to_half_a_minute_and_begin_again_after_a_quiet_minute() -> None:
    clock = Clock()
    delays = RetryDelays(clock, chance=lambda: 0.0)
    seen = []
    for _ in range(8):
        seen.append(delays.next_seconds())
        clock.seconds += seen[-1]
    assert seen == [0.5, 1, 2, 4, 8, 16, 30, 30]
    clock.seconds += 60
    assert delays.next_seconds() == 30
    clock.seconds += 91
    assert delays.next_seconds() == 0.5


def test_chance_shortens_a_delay_up_to_a_half() -> None:
    assert RetryDelays(chance=lambda: 1.0).next_seconds() == 0.25


@pytest.mark.parametrize(
    ("status", "want"), [(429, True), (500, True), (503, True), (401, False), (404, False), (410, False)]
)
def test_which_answers_are_waited_out(status: int, want: bool) -> None:
    assert is_temporary(status) is want
