"""Processes that keep turns longer than they may and say that they did not: they get no more than their share of the time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.node_agent.granted_turns import length_seconds, longest_idle_wait_seconds, undue_grants
from tests.support.node_agent.node import Node, eventually

MakeNode = Callable[..., Node]

HOSTILE = Path(__file__).with_name("hostile_process.py")
SECONDS = 12.0
HOLD_SECONDS = 0.4
TIMEOUT_SECONDS = 1
QUANTUM_SECONDS = 0.01


@pytest.mark.parametrize(
    ("trick", "gap_seconds"),
    [
        ("none", 0.0),
        ("none", 0.004),
        ("reconnect", 0.0),
        ("new process", 0.0),
        ("new process", 0.004),
        ("processes", 0.0),
        ("resize", 0.0),
        ("move", 0.0),
    ],
)
def test_a_process_that_hogs_turns_and_denies_it_gets_only_its_share(
    make_node: MakeNode, trick: str, gap_seconds: float
) -> None:
    node = make_node(
        lanes={"maxPerGpu": 0 if trick == "move" else 1},
        turns={"quantumMilliseconds": 1000 * QUANTUM_SECONDS, "timeoutSeconds": TIMEOUT_SECONDS},
    ).start()
    other = node.container("other", 60).await_socket().process()
    other.hello()
    other.profile(10, 560)
    hog = node.container("hog", 60).await_socket().process(HOSTILE)
    assert hog.pid
    hog.start("hog", seconds=SECONDS, hold_seconds=HOLD_SECONDS, trick=trick)
    trained = other.do("train", seconds=SECONDS, iteration_seconds=0.004, gap_seconds=gap_seconds)
    assert hog.finish()["turns"] > 1
    turns = eventually(
        "all iterations are recorded", lambda: recorded_turns(node, len(trained["iterations"]))
    )
    assert sum(turn["waited_seconds"] + length_seconds(turn) for turn in turns["other"]) > SECONDS / 2
    longest_seconds = max(turn["waited_seconds"] for turn in turns["other"])
    # A turn that fills a gap may begin when the gap does, so the wait for it is shorter by the gap. How long a wait may be depends
    # on how long the hog keeps its turn, which a busy machine may lengthen. But `other` waits for nothing else.
    evidence = turns["other"][-3:], turns["hog"][-3:], node.log
    assert HOLD_SECONDS - gap_seconds < longest_seconds, evidence
    assert longest_idle_wait_seconds(turns["other"], turns["hog"]) < TIMEOUT_SECONDS, evidence
    if trick == "move":
        eventually("its container has no lane without a process", lambda: node.session("hog")["lane"] is None)
    # At each grant, `other` is less than a quantum behind, or it paused and has made up for what filled its earlier pauses.
    # So it is never more behind than by a quantum, one turn that the hog was due, and one that filled a pause, and without
    # pauses by a quantum and one turn. How long that turn lasts is the hog's choice: HOLD_SECONDS, or as `processes` until
    # it is revoked, TIMEOUT_SECONDS after the request to yield, because each of them joins the turn of the others.
    assert undue_grants(turns["other"], turns["hog"], trained["iterations"], QUANTUM_SECONDS) == []


def recorded_turns(node: Node, iterations: int) -> dict[str, list[dict[str, Any]]] | None:
    """The turns by pod, once those of `other` hold all of its iterations but for one in each turn that was revoked: on a busy
    machine `other` may be late as well."""
    turns: dict[str, list[dict[str, Any]]] = {"other": [], "hog": []}
    for turn in node.get("/turns"):
        turns[turn["pod"]].append(turn)
    recorded = sum(turn["iterations"] for turn in turns["other"])
    revoked = sum(turn["end"] == "revoked" for turn in turns["other"])
    return turns if iterations - revoked <= recorded <= iterations else None


def test_a_process_that_keeps_the_lane_after_its_turns_gets_only_its_share(make_node: MakeNode) -> None:
    node = make_node(
        lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 10, "timeoutSeconds": TIMEOUT_SECONDS}
    ).start()
    other = node.container("other", 50).await_socket().process()
    other.hello()
    other.profile(10, 10)
    hog = node.container("hog", 50).await_socket().process(HOSTILE)
    assert hog.pid
    hog.start("keep_the_lane", seconds=SECONDS, keep_seconds=HOLD_SECONDS)
    iterations = other.do("train", seconds=SECONDS, iteration_seconds=0.004)["iterations"]
    turns = [turn for turn in node.get("/turns") if turn["pod"] == "other" and turn["end_seconds"]]
    (since_seconds, _), *_, (_, until_seconds) = iterations
    # Before and after that, nobody else wants the lane.
    kept = [each for each in hog.finish()["kept"] if since_seconds < each[0] and each[1] < until_seconds]
    kept_seconds = len(kept) * HOLD_SECONDS
    held_seconds = sum(turn["end_seconds"] - turn["start_seconds"] for turn in turns)
    assert kept
    assert held_seconds > kept_seconds - 3 * HOLD_SECONDS, (held_seconds, kept_seconds)


@pytest.mark.parametrize("asks_first", [False, True], ids=["it never asks", "it goes on after its release"])
def test_a_process_that_computes_without_a_turn_keeps_no_lane(make_node: MakeNode, asks_first: bool) -> None:
    # With the default timeout: it is longer than the test, and no short pause of a busy machine costs the others a turn.
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 10}).start()
    other, third = (node.container(pod, 30).await_socket().process() for pod in ("other", "third"))
    rogue = node.container("rogue", 30).await_socket().process(HOSTILE)
    for process in (other, third):
        process.hello()
        process.profile(10, 10)
    assert rogue.pid
    rogue.start("compute_without_turn", seconds=2.0, asks_first=asks_first)
    for process in (other, third):
        process.start("train", seconds=2.0, iteration_seconds=0.004)
    for process in (other, third):
        assert process.finish()["iterations"]
    assert rogue.finish()["iterations"] > 0
    turns = {pod: [turn for turn in node.get("/turns") if turn["pod"] == pod] for pod in ("rogue", "other")}
    assert len(turns["rogue"]) == int(asks_first)
    assert [turn["end"] for turn in turns["other"] if turn["end"] not in ("released", None)] == []
