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
    stopping = group.stage
    assert stopping is Stage.TERMINATING
    os.waitid(os.P_PID, pids[0], os.WEXITED | os.WNOWAIT)

    group.saw_processes(pids[1:], later)
    group.step(4.25, True, RULES)

    assert group.stage is Stage.WARNED
    assert group.escalation.spent_seconds == 0
    assert group.replaced
    group.close()


@pytest.mark.parametrize("checks", [2, 3])
def test_a_container_that_was_seen_all_along_gains_no_grace_when_another_one_ends(
    checks: int, pids: list[int]
) -> None:
    """A pod may have two containers look like the same one, and end one of them whenever the grace of both is nearly spent."""
    holder, helper = (PodContainer("uid-of-a", cgroup) for cgroup in ("holder", "a-helper"))
    group = ProcessGroup("default/a/trainer", lambda pid: None)
    for now_seconds in range(checks):
        group.saw_processes(pids, frozenset((holder, helper)))
        group.step(2.0 * now_seconds, True, RULES)
    stage = group.stage
    assert stage is (Stage.ANNOUNCED if checks == 2 else Stage.TERMINATING)

    group.saw_processes(pids[:1], frozenset((holder,)))

    assert group.stage is stage, "what was announced stays so"
    assert group.cgroup == "holder", "the one that is there has the grace, also after a restart of the agent"
    group.close()


def test_no_container_has_a_new_grace_while_a_stopped_process_is_alive(
    pids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in another container of the pod, for example, which the reading of the GPU does not show any more."""
    monkeypatch.setattr(signal, "pidfd_send_signal", lambda pidfd, number: None)
    earlier, later = (frozenset((PodContainer("uid-of-a", cgroup),)) for cgroup in ("c1", "c2"))
    group = ProcessGroup("default/a/trainer", lambda pid: None)
    for now_seconds in (0.0, 2.0, 4.0):
        group.saw_processes(pids[:1], earlier)
        group.step(now_seconds, True, RULES)
    group.saw_processes(pids[1:], later)
    assert group.stage is Stage.TERMINATING
    group.close()
