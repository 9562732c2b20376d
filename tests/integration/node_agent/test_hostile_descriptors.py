"""Processes that send descriptors: to the agent, or to nobody, until the kernel lets root send no more on the node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.node_agent.footprint import Footprint, comes_back
from tests.support.node_agent.node import Node, PeerProcess, eventually
from tests.support.node_agent.pod_cgroup import PodCgroup

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="the agent and the attacker are root's, as on a node"
)

MakeNode = Callable[..., Node]
MakePod = Callable[[], PodCgroup]

HOSTILE = Path(__file__).with_name("hostile_process.py")
DESCRIPTORS = 512
"""The agent's limit of open descriptors, by which the kernel limits those in flight. A low one is soon reached."""

EXEMPTS = next(
    name
    for name, number in (("sys_resource", 24), ("sys_admin", 21))
    if int(Path("/proc/self/status").read_text().partition("CapBnd:\t")[2][:16], 16) >> number & 1
)
"""The chart gives the first of these capabilities. The kernel takes either, and a nested machine may lack the first."""


def agent_with(make_node: MakeNode, *capabilities: str) -> Node:
    """An agent with the capabilities of its pod and a low limit of descriptors."""
    node = make_node()
    allowed = "".join(f",+{name}" for name in capabilities)
    node.starter = ["prlimit", f"--nofile={DESCRIPTORS}"]
    node.starter += ["setpriv", f"--bounding-set=-all{allowed}", "--inh-caps=-all"]
    return node.start()


def under_attack(node: Node, pod: PodCgroup) -> PeerProcess:
    """A process that is about to open a session while more descriptors are in flight than the agent may have."""
    victim = node.container("victim", 20, pod_uid=pod.uid).await_socket().process()
    pod.take(victim)
    attacker = node.container("hostile", 20).await_socket().process(HOSTILE)
    assert attacker.do("use_up_descriptors_in_flight", count=2 * DESCRIPTORS)["sent"] >= 2 * DESCRIPTORS
    return victim


def test_descriptors_in_flight_keep_no_session_from_its_page(make_node: MakeNode, make_pod: MakePod) -> None:
    victim = under_attack(agent_with(make_node, "kill", EXEMPTS), make_pod())
    victim.hello()
    assert victim.do("read", word=1)["value"] == 0, "it has its page"
    victim.turn()


def test_an_agent_without_the_capability_says_what_it_lacks(make_node: MakeNode, make_pod: MakePod) -> None:
    node = agent_with(make_node, "kill")
    victim = under_attack(node, make_pod())
    victim.greet()
    assert "closed" in victim.receive()
    eventually("it is logged", lambda: "give the node agent the capability SYS_RESOURCE" in node.log)


def test_descriptors_that_are_sent_to_the_agent_are_refused(make_node: MakeNode) -> None:
    node = make_node().start()
    other = node.container("other", 20).await_socket().process()
    attacker = node.container("hostile", 20).await_socket().process(HOSTILE)
    assert other.pid
    before = Footprint.at_rest(node)
    sent = attacker.do("send_descriptors", packets=20)["sent"]
    if sent:  # the kernel lets them pass, so the agent ends the connection
        assert "no packet carries descriptors" in node.log
    assert Footprint.of(node).descriptors <= before.descriptors + 8
    other.hello()
    other.turn()
    other.end()
    attacker.end()
    comes_back(node, before)


def test_a_socket_that_is_slow_to_close_holds_up_nobody(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}).start()
    other = node.container("other", 20).await_socket().process()
    attacker = node.container("hostile", 20).await_socket().process(HOSTILE)
    other.hello()
    attacker.do("send_lingering_sockets", seconds=3600)
    other.turn()
    assert len(node.get("/sessions")) == 2
