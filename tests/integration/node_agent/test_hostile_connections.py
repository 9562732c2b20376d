"""Processes that connect without end, or in thousands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from laneway.node_agent.sessions.limits import DESCRIPTORS_PER_PROCESS, RESERVED_DESCRIPTORS, Limits

from tests.support.node_agent.footprint import Footprint, comes_back
from tests.support.node_agent.node import Node, PeerProcess, eventually

MakeNode = Callable[..., Node]

HOSTILE = Path(__file__).with_name("hostile_process.py")
LIMITS = Limits()


def hostile(node: Node, pod: str = "hostile") -> PeerProcess:
    process = node.container(pod, 20).await_socket().process(HOSTILE)
    assert process.pid
    return process


def bystander(node: Node) -> PeerProcess:
    """A process in a container of its own, before it has a session."""
    process = node.container("bystander", 20).await_socket().process()
    assert process.pid
    return process


def takes_a_turn(process: PeerProcess) -> None:
    """Open a session, take one turn, and end the process."""
    process.hello()
    process.turn()
    process.end()


def test_few_of_ten_thousand_connections_are_accepted_and_the_others_cost_nothing(
    make_node: MakeNode,
) -> None:
    node = make_node().start()
    other, attacker = bystander(node), hostile(node)
    before = Footprint.at_rest(node)
    outcome = attacker.do("hoard", count=10_000)
    eventually(
        "they are turned away",
        lambda: "gets no more" in node.log or "container connects too often" in node.log,
    )
    during = Footprint.of(node)
    assert during.descriptors <= before.descriptors + DESCRIPTORS_PER_PROCESS * LIMITS.processes
    assert during.threads == before.threads
    assert outcome["refused"] > 9_000, outcome
    takes_a_turn(other)
    eventually("those that say nothing are closed", lambda: "no hello came in time" in node.log)
    attacker.end()
    comes_back(node, before)


def test_processes_that_open_a_session_and_live_on_are_bounded(make_node: MakeNode) -> None:
    node = make_node().start()
    other, attacker = bystander(node), hostile(node)
    before = Footprint.at_rest(node)
    outcome = attacker.do("fork_sessions", count=LIMITS.processes + 20)
    assert 32 <= outcome["let_in"] <= LIMITS.processes, outcome
    assert Footprint.of(node).descriptors <= before.descriptors + DESCRIPTORS_PER_PROCESS * LIMITS.processes
    assert len(node.session("hostile")["processes"]) <= LIMITS.processes
    takes_a_turn(other)
    attacker.do("end_children")
    eventually("their memory is free again", lambda: not node.session("hostile")["processes"])
    comes_back(node, before)


def test_the_descriptors_of_a_node_are_shared_out(make_node: MakeNode) -> None:
    node = make_node()
    most = 4
    node.starter = ["prlimit", f"--nofile={RESERVED_DESCRIPTORS + DESCRIPTORS_PER_PROCESS * most * 2}"]
    node.start()
    first, second = hostile(node, "a"), hostile(node, "b")
    before = Footprint.at_rest(node)
    assert first.do("fork_sessions", count=most + 2)["let_in"] == most
    assert second.do("fork_sessions", count=most + 2)["let_in"] == most
    assert "the container already has sessions for 4 living processes" in node.log
    for attacker in (first, second):
        attacker.do("end_children")
    comes_back(node, before)
