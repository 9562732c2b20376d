"""The signals to a container's processes, and what is logged of them."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from laneway.node_agent.enforcement.escalation import Rules, Stage
from laneway.node_agent.enforcement.process_group import ProcessGroup

RULES = Rules(grace_seconds=1.0, kill_seconds=1.0)


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Two processes."""
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE) as one,
        subprocess.Popen(command, stdin=subprocess.PIPE) as other,
    ):
        yield [one.pid, other.pid]
        one.communicate()
        other.communicate()


def test_a_process_that_no_signal_ends_is_logged_once_and_so_is_one_that_joins_it(
    pids: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that waits inside the driver ends when the driver answers, which may take days."""
    sent: list[int] = []
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda pidfd, number: sent.append(number))
    group = ProcessGroup("default/a/trainer", lambda pid: None)
    with caplog.at_level(logging.WARNING):
        for now_seconds in range(100):
            group.saw_processes(pids[: 1 if now_seconds < 50 else 2], frozenset())
            group.step(float(now_seconds), True, RULES)
    group.close()
    assert group.stage is Stage.KILLING
    assert sent.count(signal.SIGKILL) > 100, "it is sent again each time"
    logged = [record.getMessage() for record in caplog.records]
    assert logged == [
        f"sending SIGTERM container=default/a/trainer pids={pids[:1]}",
        f"sending SIGKILL container=default/a/trainer pids={pids[:1]}",
        f"sending SIGKILL container=default/a/trainer pids={sorted(pids)}",
    ]
