"""The signals to a container's processes, and what is logged of them."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from laneway.node_agent.enforcement.escalation import Rules, Stage
from laneway.node_agent.enforcement.process_group import ProcessGroup
from laneway.node_agent.enforcement.process_owners import PodContainer

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


def test_a_container_that_follows_a_stopped_one_at_once_has_a_new_grace(pids: list[int]) -> None:
    """The first check after the end of the one finds the other one already."""
    earlier, later = (frozenset((PodContainer("uid-of-a", cgroup),)) for cgroup in ("c1", "c2"))
    group = ProcessGroup("default/a/trainer", lambda pid: None)
    for now_seconds in (0.0, 2.0, 4.0):
        group.saw_processes(pids[:1], earlier)
        group.step(now_seconds, True, RULES)
    assert group.stage is Stage.TERMINATING
    os.waitid(os.P_PID, pids[0], os.WEXITED | os.WNOWAIT)

    group.saw_processes(pids[1:], later)
    group.step(4.25, True, RULES)

    assert group.stage is Stage.WARNED
    assert group.escalation.spent_seconds == 0
    assert group.replaced
    group.close()
