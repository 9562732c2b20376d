"""Processes that flood the agent: each is disconnected or throttled, logged in few lines, and leaves
nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from laneway.node_agent.sessions.limits import Limits

from tests.support.node_agent.footprint import Footprint, comes_back
from tests.support.node_agent.granted_turns import undue_grants
from tests.support.node_agent.node import Node, PeerProcess, eventually
from tests.support.node_agent.progress import (
    ALONE_SECONDS,
    ITERATION_SECONDS,
    train_together,
    undisturbed_progress_ratio,
)

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


def attacker(node: Node) -> PeerProcess:
    process = node.container("hostile", 20).await_socket().process(HOSTILE)
    assert process.pid
    return process


@pytest.mark.parametrize(
    "attack",
    [
        "flood",
        "garbage",
        "turns_for_nothing",
        "connect_and_close",
        pytest.param("stray_releases", marks=pytest.mark.long),
        pytest.param("requests_in_turn", marks=pytest.mark.long),
    ],
)
def test_a_flooding_process_is_disconnected_and_others_make_progress(
    make_node: MakeNode, attack: str
) -> None:
    node = make_node(lanes={"maxPerGpu": 2 if attack in IN_A_LANE_OF_ITS_OWN else 1}).start()
    other, hostile = bystander(node), attacker(node)
    before = Footprint.at_rest(node)
    sent = []

    def beside(command: str, seconds: float) -> list[float]:
        hostile.start(command, seconds=seconds)
        rates = train_together([other], seconds)
        done = hostile.finish()["done"]
        if command == attack:
            sent.append(done)
        return rates

    # Without the attack, the hostile process takes a CPU all the same: the attack is measured, and not the machine.
    ratio = undisturbed_progress_ratio(
        lambda: beside("compute", ALONE_SECONDS), lambda: beside(attack, SECONDS), bound=0.5
    )
    assert ratio > 0.5
    is_cut_off(node, attack, sent)
    hostile.end()
    comes_back(node, before)


def test_a_process_that_reads_nothing_is_disconnected_and_has_only_its_share_of_turns(
    make_node: MakeNode,
) -> None:
    quantum_seconds = 0.02
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 1000 * quantum_seconds}).start()
    other, hostile = bystander(node), attacker(node)
    before = Footprint.at_rest(node)
    hostile.start("deaf", seconds=SECONDS)
    iterations = other.do("train", seconds=SECONDS, iteration_seconds=ITERATION_SECONDS)["iterations"]
    sent = hostile.finish()["done"]
    ours, theirs = (
        [turn for turn in node.get("/turns") if turn["pod"] == pod] for pod in ("bystander", "hostile")
    )
    assert theirs
    assert sum(turn["iterations"] for turn in ours) == len(iterations) > 0
    assert undue_grants(ours, theirs, iterations, quantum_seconds) == []
    is_cut_off(node, "deaf", [sent])
    hostile.end()
    comes_back(node, before)


def is_cut_off(node: Node, attack: str, sent: Sequence[int]) -> None:
    """Check that the attacker was disconnected or throttled, in few lines of the log, and cost nobody a turn.

    Args:
        node: the node.
        attack: the attack.
        sent: what each attack has sent.
    """
    eventually("it is logged", lambda: FLOODS[attack] in node.log)
    lines = [line for line in node.log.splitlines() if "default/hostile" in line and " WARNING " in line]
    assert 1 <= len(lines) <= 12 * len(sent), lines
    most = 2 * (LIMITS.packet_burst + LIMITS.accept_burst) + 20 * SECONDS * LIMITS.packets_per_second
    assert max(sent) <= most
    assert not [
        turn for turn in node.get("/turns") if turn["pod"] == "bystander" and turn["end"] == "revoked"
    ]
    assert "Traceback" not in node.log
