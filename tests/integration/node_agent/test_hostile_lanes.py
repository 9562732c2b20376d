"""Processes that try to turn over the lanes of their GPU, or to get a turn that is not theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.node_agent.node import Node, PeerProcess, eventually
from tests.support.node_agent.progress import ALONE_SECONDS, train_together, undisturbed_progress_ratio

MakeNode = Callable[..., Node]

HOSTILE = Path(__file__).with_name("hostile_process.py")
SECONDS = 5.0


def neighbours(node: Node) -> list[PeerProcess]:
    """Two processes that cannot keep a lane each when the attacker says that it needs one of 400 MiB."""
    processes = []
    for pod in ("a", "b"):
        process = node.container(pod, 40).await_socket().process()
        process.hello()
        process.profile(10, 300)
        processes.append(process)
    return processes


def test_sizes_that_go_up_and_down_leave_the_neighbours_lanes_alone(make_node: MakeNode) -> None:
    node = make_node().start()
    processes = neighbours(node)
    attacker = node.container("hostile", 60).await_socket().process(HOSTILE)
    assert attacker.pid
    lanes_seen: list[tuple[int | None, ...]] = []
    attacks: list[int] = []
    stopped = threading.Event()

    def watch() -> None:
        while not stopped.wait(0.03):
            sessions = {session["pod"]: session["lane"] for session in node.get("/sessions")}
            seen = sessions["a"], sessions["b"]
            if not lanes_seen or lanes_seen[-1] != seen:
                lanes_seen.append(seen)

    def attacked() -> list[float]:
        attacker.start("profiles_up_and_down", seconds=SECONDS)
        rates = train_together(processes, SECONDS)
        attacks.append(attacker.finish()["done"])
        return rates

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        ratio = undisturbed_progress_ratio(
            lambda: train_together(processes, ALONE_SECONDS), attacked, bound=0.4
        )
    finally:
        stopped.set()
        watcher.join()
    assert ratio > 0.4, "two that share a lane make half of what they make in lanes of their own"
    assert min(attacks) > 6, "all of its sizes count, more than once"
    assert 2 <= len(lanes_seen) <= 6 * len(attacks), lanes_seen


def test_only_a_restarted_agent_accepts_a_turn_of_an_earlier_connection(
    make_node: MakeNode,
) -> None:
    node = make_node(lanes={"maxPerGpu": 1}).start()
    holder = neighbours(node)[0]
    holder.turn()
    attacker = node.container("hostile", 20).await_socket().process(HOSTILE)

    def attempt() -> dict[str, Any] | None:
        outcome = attacker.do("reconnect_as_holder", seconds=2)
        assert outcome["granted"] == 0
        return outcome if outcome["done"] else None

    eventually("it was let in", attempt)
    assert node.session("a")["state"] == "Holding"


def test_a_claimed_turn_after_a_restart_is_asked_back_at_once(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 60_000}).start()
    holder, other = neighbours(node)
    eventually("both are known", lambda: all(s["sizes"] for s in node.get("/sessions")))
    holder.turn()
    assert node.terminate() == 0
    node.start()
    turns = {}
    for process, answer in ((other, "grant"), (holder, "revoke")):
        process.hello(n=1, holds_turn=True)
        process.do("write", word=9, value=1, n=1)
        turns[process] = process.expect(answer, n=1)["turn"]
        assert turns[process] > 0
    third = node.container("third", 20).await_socket().process()
    third.hello()
    third.send("request")
    for process in (holder, other):
        eventually("it is to yield", lambda process=process: process.do("read", word=2, n=1)["value"])
        assert third.receive(wait_seconds=0.5) == {"nothing": True}, (
            "the lane is busy until both have released"
        )
        process.do("write", word=9, value=0, n=1)
        process.send("release", n=1, turn=turns[process], iterations=1, gpu_seconds=0.0)
    third.expect("grant")
    assert "Traceback" not in node.log
