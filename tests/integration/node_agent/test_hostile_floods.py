"""Processes that flood the agent: each is disconnected or throttled, logged in few lines, and leaves
nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from laneway.node_agent.sessions.limits import Limits

from tests.support.node_agent.footprint import Footprint, comes_back
from tests.support.node_agent.node import Node, PeerProcess, eventually
from tests.support.node_agent.rounds import play_until_enough

MakeNode = Callable[..., Node]

HOSTILE = Path(__file__).with_name("hostile_process.py")
SECONDS = 3.0
LIMITS = Limits()

FLOODS = {
    "flood": "packets a second without a request to yield",
    "garbage": "the packet is not JSON",
    "stray_releases": "packets a second without a request to yield",
    "requests_in_turn": "packets a second without a request to yield",
    "turns_for_nothing": "packets a second without a request to yield",
    "connect_and_close": "connects too often",
    "deaf": "client does not read",
}
"""Each attack, and its log message."""


IN_A_LANE_OF_ITS_OWN = {"requests_in_turn", "turns_for_nothing"}
"""Attacks that other sessions' turns must not slow down."""


def bystander(node: Node) -> PeerProcess:
    """A process that keeps to the rules, on the GPU that is attacked."""
    process = node.container("bystander", 20).await_socket().process()
    process.hello()
    process.profile(10, 10)
    return process


@pytest.mark.parametrize("attack", FLOODS)
def test_a_flooding_process_is_disconnected_and_others_take_turns(make_node: MakeNode, attack: str) -> None:
    node = make_node(lanes={"maxPerGpu": 2 if attack in IN_A_LANE_OF_ITS_OWN else 1}).start()
    other = bystander(node)
    container = node.container("hostile", 20).await_socket()
    hostile = container.process(HOSTILE)
    assert hostile.pid
    before = Footprint.of(node)
    sent = 0

    def play() -> list[int]:
        nonlocal sent
        hostile.start(attack, seconds=SECONDS)
        turns = other.do("train", seconds=SECONDS, iteration_seconds=0.005)["iterations"]
        sent += hostile.finish()["done"]
        return [len(turns)]

    rounds = play_until_enough(play, 20)
    eventually("it is logged", lambda: FLOODS[attack] in node.log)
    lines = [line for line in node.log.splitlines() if "default/hostile" in line and " WARNING " in line]
    assert 1 <= len(lines) <= 12 * rounds, lines
    most = 2 * (LIMITS.packet_burst + LIMITS.accept_burst) + 20 * SECONDS * LIMITS.packets_per_second
    assert sent <= rounds * most
    assert not [
        turn for turn in node.get("/turns") if turn["pod"] == "bystander" and turn["end"] == "revoked"
    ]
    assert "Traceback" not in node.log
    hostile.end()
    comes_back(node, before)
