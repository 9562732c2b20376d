"""Processes that keep turns longer than they may and say that they did not: they get no more than their share of the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.node_agent.node import Node

MakeNode = Callable[..., Node]

HOSTILE = Path(__file__).with_name("hostile_process.py")
SECONDS = 12.0
HOLD_SECONDS = 0.4
TIMEOUT_SECONDS = 1


@pytest.mark.parametrize("trick", ["none", "reconnect", "new process", "move"])
def test_a_process_that_hogs_turns_and_denies_it_gets_only_its_share(make_node: MakeNode, trick: str) -> None:
    node = make_node(
        lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 10, "timeoutSeconds": TIMEOUT_SECONDS}
    ).start()
    other = node.container("other", 50).await_socket().process()
    other.hello()
    other.profile(10, 10)
    hog = node.container("hog", 50).await_socket().process(HOSTILE)
    assert hog.pid
    hog.start("hog", seconds=SECONDS, hold_seconds=HOLD_SECONDS, trick=trick)
    other.do("train", seconds=SECONDS, iteration_seconds=0.004)
    held = {"hog": 0.0, "other": 0.0}
    for turn in node.get("/turns"):
        if turn["end_seconds"] is not None:
            held[turn["pod"]] += turn["end_seconds"] - turn["start_seconds"]
    hog.finish()
    assert held["hog"] > HOLD_SECONDS
    assert held["other"] > HOLD_SECONDS
    # Over the time in which both want the lane, the two differ by no more than a turn of the hog's.
    assert held["hog"] < held["other"] + 2 * HOLD_SECONDS, held
