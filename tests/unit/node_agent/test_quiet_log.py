"""Nobody can fill the log, and nothing that was left out is lost count of."""

from __future__ import annotations

import logging
import re

import pytest
from laneway.node_agent.quiet_log import QuietLog

from tests.unit.node_agent.test_allowance import Clock


@pytest.fixture
def clock(caplog: pytest.LogCaptureFixture) -> Clock:
    caplog.set_level(logging.WARNING, "test_quiet_log")
    return Clock()


def counted(lines: list[str]) -> int:
    """How many warnings the lines stand for."""
    return len(lines) + sum(int(found) for line in lines for found in re.findall(r"\((\d+) more", line))


def test_a_day_of_the_same_costs_few_lines_and_every_one_is_counted(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    quiet = QuietLog(logging.getLogger("test_quiet_log"), clock)
    for _ in range(2 * 3600):
        quiet.warning("flood", "too many packets")
        quiet.warning("flood", "too many packets")
        clock.now_seconds += 1
        quiet.tell_left_out()
    clock.now_seconds += 100
    quiet.tell_left_out()
    assert counted(caplog.messages) == 2 * 2 * 3600
    assert len(caplog.messages) < 130


def test_what_begins_anew_is_told_at_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    quiet = QuietLog(logging.getLogger("test_quiet_log"), clock)
    for _ in range(200):
        quiet.warning("flood", "too many packets")
        clock.now_seconds += 0.5
    lines = len(caplog.messages)
    clock.now_seconds += 200
    quiet.warning("flood", "again")
    clock.now_seconds += 1
    quiet.warning("flood", "and again")
    assert caplog.messages[lines:][-1] == "and again"
    assert len(caplog.messages) == lines + 2


def test_kinds_do_not_grow_without_bound(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    quiet = QuietLog(logging.getLogger("test_quiet_log"), clock)
    for number in range(10_000):
        quiet.warning(f"kind {number}", "text")
    assert len(caplog.messages) <= 65
