"""No client can fill the log, and suppressed lines are counted."""

from __future__ import annotations

import logging
import re

import pytest
from laneway.node_agent.rate_limited_log import RateLimitedLog

from tests.unit.node_agent.manual_clock import ManualClock


@pytest.fixture
def clock(caplog: pytest.LogCaptureFixture) -> ManualClock:
    caplog.set_level(logging.WARNING, "test_rate_limited_log")
    return ManualClock()


def counted(lines: list[str]) -> int:
    """How many warnings the lines stand for."""
    return len(lines) + sum(int(found) for line in lines for found in re.findall(r"suppressed=(\d+)", line))


def test_a_day_of_equal_warnings_costs_few_lines_and_each_is_counted(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    limited = RateLimitedLog(logging.getLogger("test_rate_limited_log"), clock)
    for _ in range(2 * 3600):
        limited.warning("flood", "too many packets")
        limited.warning("flood", "too many packets")
        clock.now_seconds += 1
        limited.flush_suppressed()
    clock.now_seconds += 100
    limited.flush_suppressed()
    assert counted(caplog.messages) == 2 * 2 * 3600
    assert len(caplog.messages) < 130


def test_a_new_series_is_logged_at_once(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited = RateLimitedLog(logging.getLogger("test_rate_limited_log"), clock)
    for _ in range(200):
        limited.warning("flood", "too many packets")
        clock.now_seconds += 0.5
    lines = len(caplog.messages)
    clock.now_seconds += 200
    limited.warning("flood", "again")
    clock.now_seconds += 1
    limited.warning("flood", "and again")
    assert caplog.messages[lines:][-1] == "and again"
    assert len(caplog.messages) == lines + 2


def test_kinds_do_not_grow_without_bound(clock: ManualClock, caplog: pytest.LogCaptureFixture) -> None:
    limited = RateLimitedLog(logging.getLogger("test_rate_limited_log"), clock)
    for number in range(10_000):
        limited.warning(f"kind {number}", "text")
    assert len(caplog.messages) <= 65


def test_kinds_that_are_over_leave_their_places_to_others(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    limited = RateLimitedLog(logging.getLogger("test_rate_limited_log"), clock, max_kinds=2)
    for number in range(100):
        for kind in (f"b {number}", f"b {number}", f"a {number}"):
            limited.warning(kind, f"text of {kind}")
        clock.now_seconds += 100
        limited.flush_suppressed()
        clock.now_seconds += 100
    assert [line for line in caplog.messages if line.startswith("text of a")] == [
        f"text of a {number}" for number in range(100)
    ]
    assert counted(caplog.messages) == 300
