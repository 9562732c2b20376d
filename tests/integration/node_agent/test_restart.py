"""The agent is killed or ended and comes back: containers, lanes, counters and turns survive."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.node_agent.node import Node, PeerProcess, eventually

MakeNode = Callable[..., Node]


def session(node: Node, pod: str) -> PeerProcess:
    process = node.container(pod, 50).await_socket().process()
    process.hello()
    process.profile(50, 100)
    eventually("the profile is known", lambda: node.session(pod)["sizes"])
    return process


def saved_leases(node: Node) -> list[dict[str, Any]]:
    """What the agent has put on the disk."""
    state = json.loads(node.saved_state or '{"gpus": []}')
    return [lease for gpu in state["gpus"] for lease in gpu["leases"]]


def saved(node: Node, *pods: str) -> None:
    """Wait until the agent has put its sessions on the disk, with their profiles."""

    def is_there() -> bool:
        leases = saved_leases(node)
        return {lease["pod"] for lease in leases if lease["counted"] and lease["processes"]} >= set(pods)

    eventually("the state is saved", is_there)


def test_a_holder_keeps_its_turn_over_a_crash_and_no_other_gets_it(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 10}).start()
    holder, other = session(node, "a"), session(node, "b")
    holder.turn()
    holder.do("write", word=9, value=1)
    other.send("request")
    saved(node, "a", "b")
    node.kill()
    node.start()
    assert "closed" in other.receive(), "the packets of the old agent end"
    other.do("close")
    other.hello(n=1)
    other.send("request", n=1)
    assert other.receive(n=1, wait_seconds=1.0) == {"nothing": True}, "the holder has not come back yet"
    holder.hello(n=1, holds_turn=True)
    holder.do("write", word=9, value=1, n=1)
    grant = holder.expect("grant", n=1)
    eventually("its page asks for the turn", lambda: holder.do("read", word=2, n=1)["value"])
    assert other.receive(n=1, wait_seconds=0.3) == {"nothing": True}
    holder.send("release", n=1, turn=grant["turn"], iterations=1, gpu_seconds=0.1)
    other.expect("grant", n=1)


def test_a_holder_that_died_with_the_agent_is_not_waited_for(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"timeoutSeconds": 3600}).start()
    holder, other = session(node, "a"), session(node, "b")
    holder.turn()
    saved(node, "a", "b")
    node.kill()
    holder.kill()
    node.start()
    other.hello(n=1)
    other.send("request", n=1)
    other.expect("grant", n=1)


def test_a_process_that_does_not_come_back_is_waited_for_no_longer_than_the_timeout(
    make_node: MakeNode,
) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"timeoutSeconds": 2}).start()
    silent, other = session(node, "a"), session(node, "b")
    silent.turn()
    saved(node, "a", "b")
    node.kill()
    node.start()
    other.hello(n=1)
    other.send("request", n=1)
    other.expect("grant", n=1)
    assert node.session("a")["state"] == "Lost"
    assert "its memory counts" in node.session("a")["message"]


def test_a_turn_of_an_earlier_agent_is_not_accepted_later(make_node: MakeNode) -> None:
    node = make_node().start()
    holder = session(node, "a")
    holder.turn()
    holder.do("close")
    holder.hello(n=1, holds_turn=True)
    assert holder.expect("revoke", n=1)["turn"] == 1, "its lane waits for the release of that turn"
    holder.send("release", n=1, turn=1, iterations=1, gpu_seconds=0.0)
    holder.send("request", n=1)
    holder.expect("grant", n=1)
    holder.do("close", n=1)


def test_a_turn_that_nobody_granted_is_not_awaited(make_node: MakeNode) -> None:
    node = make_node().start()
    holder = session(node, "a")
    holder.do("close")
    holder.hello(n=1, holds_turn=True)
    assert holder.expect("revoke", n=1)["turn"] == 0


def test_lanes_counters_and_profiles_survive(make_node: MakeNode) -> None:
    node = make_node().start()
    processes = {pod: session(node, pod) for pod in ("a", "b", "c")}
    processes["b"].turn()
    processes["b"].do("write", word=8, value=41)
    processes["b"].do("write", word=13, value=2_500_000_000)
    processes["a"].end()
    eventually("a's process is gone", lambda: not node.session("a")["processes"])
    before = {s["pod"]: s for s in node.get("/sessions")}
    assert node.terminate() == 0, "a peaceful end saves what is known"
    node.start()
    after = eventually("all are found again", lambda: {s["pod"]: s for s in node.get("/sessions")})
    for pod in ("a", "b", "c"):
        for field in ("lane", "turns", "iterations", "gpu_seconds", "sizes"):
            assert after[pod][field] == before[pod][field], (pod, field)
    welcome = processes["b"].hello(n=1)
    assert welcome["profile"]["persistent_bytes"] == 50 << 20
    assert node.session("b")["iterations"] == 41
    processes["b"].do("write", word=8, value=42, n=1)
    assert node.session("b")["iterations"] == 42


def test_a_session_that_waited_for_a_lane_waits_again_without_memory(make_node: MakeNode) -> None:
    """Neither is profiled, so the first counts with the whole GPU and the other never had a turn."""
    node = make_node().start()
    first = node.container("a", 100).await_socket().process()
    first.hello()
    first.turn()
    other = node.container("b", 100).await_socket().process()
    other.hello()
    other.send("request")
    eventually("it waits for a lane", lambda: "waits for a lane" in node.session("b")["message"])
    eventually("both are remembered", lambda: node.saved_state.count('"pid"') == 2)

    node.kill()
    node.start()
    for process in (first, other):
        process.do("close")
        process.hello(n=1)
    other.send("request", n=1)

    eventually("it waits for a lane", lambda: "waits for a lane" in node.session("b")["message"])
    assert "stopped" not in node.session("b")["message"]
    assert node.session("a")["lane"] is not None
    first.end()
    other.expect("grant", n=1)


def test_the_agent_starts_without_its_state_if_the_state_file_is_invalid(make_node: MakeNode) -> None:
    node = make_node().start()
    process = session(node, "a")
    node.kill()
    (node.root / "var/lib/laneway/agent/state.json").write_text('{"version": 1, "boot_id": 5}')
    node.start()
    assert "state.json: boot_id" in node.log
    process.hello(n=1)
    process.send("request", n=1)
    process.expect("grant", n=1)


def test_a_second_connection_of_a_process_replaces_its_first(make_node: MakeNode) -> None:
    node = make_node().start()
    process = session(node, "a")
    process.do("write", word=8, value=7)
    process.hello(n=1)
    assert "another connection" in process.expect("error")["reason"]
    assert len(node.session("a")["processes"]) == 1
    assert process.do("read", word=8, n=1)["value"] == 7
    assert node.session("a")["iterations"] == 7


def test_a_container_without_a_client_keeps_its_memory_over_a_restart(make_node: MakeNode) -> None:
    node = make_node().start()
    silent = node.container("silent", 70).await_socket()
    eventually("it has a lane", lambda: node.session("silent")["lane"] is not None)
    process = node.container("other", 60).await_socket().process()
    process.hello()
    assert node.session("other")["lane"] is None
    eventually(
        "the state is saved",
        lambda: {lease["pod"] for lease in saved_leases(node)} == {"silent", "other"},
    )

    node.kill()
    node.start()
    process.hello(n=1)
    eventually("it has its lane again", lambda: node.session("silent")["lane"] is not None)
    assert node.session("silent")["state"] == "Allocated"
    assert node.session("other")["lane"] is None
    assert "default/silent" in node.session("other")["message"]
    silent.remove()
    eventually("its memory is free", lambda: node.session("other")["lane"] is not None)
