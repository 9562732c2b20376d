"""Processes that impersonate another container: over its socket, over a connection handed to them, or with a
process id that was another process's a moment ago."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.node_agent.footprint import Footprint, comes_back
from tests.support.node_agent.node import Container, Node, PeerProcess, eventually
from tests.support.node_agent.pod_cgroup import PodCgroup

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can create pods' cgroups")

MakeNode = Callable[..., Node]
MakePod = Callable[[Node, str], tuple[Container, PodCgroup]]

HOSTILE = Path(__file__).with_name("hostile_process.py")
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
TRIES = 20


@pytest.fixture
def make_pod() -> Iterator[MakePod]:
    """Make pods of one container, each with its cgroup; their processes end with the test."""
    cgroups: list[PodCgroup] = []

    def make(node: Node, name: str) -> tuple[Container, PodCgroup]:
        cgroups.append(PodCgroup())
        container = node.container(name, 20, pod_uid=cgroups[-1].uid).await_socket()
        return container, cgroups[-1]

    yield make
    for cgroup in cgroups:
        cgroup.remove()


def process_in(pod: tuple[Container, PodCgroup]) -> PeerProcess:
    container, cgroup = pod
    process = container.process(HOSTILE)
    cgroup.take(process)
    return process


def lend_door(owner: Container, borrower: Container) -> None:
    """Put a container's socket into another one's folder, as a wrong mount or a descriptor that was passed on would."""
    (borrower.folder / "lent.sock").hardlink_to(owner.socket)


def test_a_process_of_another_pod_is_rejected_whatever_its_user(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node().start()
    victim, intruder = make_pod(node, "victim"), make_pod(node, "intruder")
    lend_door(victim[0], intruder[0])
    for user in (0, 1000):
        process = process_in(intruder)
        process.do("become", uid=user)
        reason = process.do("refusal", name="lent.sock")["reason"]
        assert f"is not in a cgroup of pod {victim[1].uid} (default/victim)" in reason
        assert process.do("fork_sessions", count=1)["let_in"] == 1, "at its own socket it is let in"
    assert node.session("victim")["processes"] == []


def test_a_process_in_its_own_pid_namespace_is_known_by_the_nodes_pid(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node().start()
    process = process_in(make_pod(node, "nested"))
    assert process.do("fork_sessions", count=1, pid_namespace=True)["let_in"] == 1
    (found,) = node.session("nested")["processes"]
    assert found["pid"] > 1
    process.do("end_children")
    eventually("its end is seen", lambda: not node.session("nested")["processes"])


def test_a_connection_that_is_handed_to_another_pod_stays_its_owners(
    make_node: MakeNode, make_pod: MakePod, tmp_path: Path
) -> None:
    node = make_node().start()
    owner, taker = process_in(make_pod(node, "owner")), process_in(make_pod(node, "taker"))
    address = str(tmp_path / "hand-over.sock")
    owner.start("hand_over", address=address)
    eventually("it is offered", lambda: Path(address).exists())
    assert taker.do("take_over", address=address)["packet"]["type"] == "grant"
    owner.finish()
    assert node.session("owner")["state"] == "Holding"
    assert node.session("taker")["turns"] == 0
    owner.kill()
    assert taker.do("rest_of_what_was_taken")["packets"] == [], "it ends with its owner"
    eventually("the turn is over", lambda: node.session("owner")["state"] != "Holding")


def test_an_ended_process_is_rejected_even_if_a_child_keeps_the_connection(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node().start()
    owner = make_pod(node, "owner")
    process = process_in(owner)
    before = Footprint.at_rest(node)
    os.kill(node.agent_pid, signal.SIGSTOP)
    try:
        process.do("connect_and_leave_it_to_a_child", name="agent.sock")
        process.await_end()
    finally:
        os.kill(node.agent_pid, signal.SIGCONT)
    eventually("it is turned away", lambda: "has ended" in node.log)
    comes_back(node, before)


def test_a_reused_pid_does_not_verify_a_peer(make_node: MakeNode, make_pod: MakePod) -> None:
    node = make_node().start()
    victim, intruder = make_pod(node, "victim"), make_pod(node, "intruder")
    lend_door(victim[0], intruder[0])
    for _ in range(TRIES):
        process = process_in(intruder)
        os.kill(node.agent_pid, signal.SIGSTOP)
        try:
            process.do("connect_and_leave_it_to_a_child", name="lent.sock")
            process.await_end()
            successor = _with_pid(process.pid)
            if successor is not None:
                victim[1].take_pid(successor.pid)
        finally:
            os.kill(node.agent_pid, signal.SIGCONT)
        if successor is not None:
            break
    assert successor is not None, f"{LAST_PID} does not decide the next process id"
    try:
        expected = f"container=default/victim/trainer reason='process {process.pid} has ended"
        eventually("it is turned away", lambda: expected in node.log)
        assert node.session("victim")["processes"] == []
    finally:
        successor.kill()
        successor.wait()


def _with_pid(pid: int) -> subprocess.Popen[bytes] | None:
    """Start a process with a process id; None if another process got it first."""
    LAST_PID.write_text(str(pid - 1))
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    if process.pid == pid:
        return process
    process.kill()
    process.wait()
    return None
