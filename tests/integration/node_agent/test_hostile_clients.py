"""Clients that break the protocol are disconnected with a reason; the others' turns continue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.support.node_agent.node import Node, PeerProcess, eventually

MakeNode = Callable[..., Node]

HELLO = {"type": "hello", "version": 1, "pid": 1, "framework": "", "device": "cpu", "gpu": None}
PROFILE = {
    "type": "profile",
    "persistent_bytes": 1,
    "ephemeral_bytes": 1,
    "framework_bytes": 0,
    "iteration_seconds": 0.1,
    "iterations": 5,
    "largest_tensor_bytes": 1,
    "model_bytes": 1,
}

WRONG_BEFORE_HELLO = {
    "garbage": ("\x00\xff\x13", "not JSON"),
    "half a message": ('{"type": "hel', "not JSON"),
    "no object": ('["hello"]', "send an object"),
    "no type": ('{"version": 1}', "'type' is None"),
    "unknown type": ('{"type": "greet"}', "'type' is 'greet'; send one of hello"),
    "a type that is no text": ('{"type": ["hello"]}', "'type' is"),
    "deeply nested": ("[" * 60_000, "not JSON"),
    "another version": (json.dumps({**HELLO, "version": 2}), "this agent speaks version 1"),
    "a field is missing": ('{"type": "hello", "version": 1}', "the field 'pid' is missing"),
    "a field of another kind": (json.dumps({**HELLO, "pid": "one"}), "'pid' is 'one'; send a whole number"),
    "another container's GPU": (json.dumps({**HELLO, "gpu": "GPU-x"}), "has no share of GPU 'GPU-x'"),
    "a request first": ('{"type": "request"}', "request came before hello"),
}

WRONG_AFTER_HELLO = {
    "a second hello": (json.dumps(HELLO), "already sent one"),
    "no number": (json.dumps({**PROFILE, "iterations": True}), "'iterations' is True"),
    "a negative size": (json.dumps({**PROFILE, "persistent_bytes": -1}), "'persistent_bytes' is -1"),
    "not a number": (json.dumps({**PROFILE, "iteration_seconds": float("nan")}), "NaN is not a number"),
    "an endless time": (
        '{"type":"release","turn":1,"iterations":1,"gpu_seconds":1e999}',
        "'gpu_seconds' is inf",
    ),
    "a number of 60,000 digits": (
        '{"type":"release","turn":%s,"iterations":1,"gpu_seconds":1}' % ("9" * 60_000),
        "not JSON",
    ),
    "paused unasked": ('{"type": "paused"}', "paused: "),
    "text after goodbye": ('{"type": "goodbye"}', None),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """One node for all kinds of wrong packets: what one connection sends must not matter to the next."""
    node = Node(tmp_path_factory.mktemp("hostile"), lanes={"maxPerGpu": 1})
    try:
        yield node.start()
    finally:
        node.end()


@pytest.fixture(scope="module")
def bad(node: Node) -> PeerProcess:
    """A process that sends them."""
    return node.container("bad", 50).await_socket().process()


@pytest.mark.parametrize("what", WRONG_BEFORE_HELLO)
def test_wrong_packets_instead_of_a_hello_are_refused(node: Node, bad: PeerProcess, what: str) -> None:
    text, reason = WRONG_BEFORE_HELLO[what]
    bad.first(text)
    assert reason in bad.expect("error")["reason"]
    assert "closed" in bad.receive()


@pytest.mark.parametrize("what", WRONG_AFTER_HELLO)
def test_wrong_packets_of_a_session_are_refused_and_cost_it_the_turn(
    node: Node, bad: PeerProcess, what: str
) -> None:
    text, reason = WRONG_AFTER_HELLO[what]
    bad.hello()
    bad.send("request")
    answer = bad.receive()["packet"]
    if answer["type"] == "revoke":  # the process is first told that its turn of an earlier case is over
        answer = bad.receive()["packet"]
    assert answer["type"] == "grant"
    bad.do("send", text=text)
    if reason is None:
        bad.do("send", text='{"type": "request"}')
        reason = "request came after goodbye"
    assert reason in bad.expect("error")["reason"]
    assert "closed" in bad.receive()
    eventually("its turn is over", lambda: node.session("bad")["state"] != "Holding")


def test_an_oversize_packet_is_refused(node: Node, bad: PeerProcess) -> None:
    bad.first(" " * 65_537)
    assert "longer than 65536 bytes" in bad.expect("error")["reason"]


def test_a_client_cannot_shrink_the_page_that_the_agent_uses(node: Node, bad: PeerProcess) -> None:
    bad.hello()
    assert "failed" in bad.do("shrink_page")


def test_a_connection_without_hello_is_closed(node: Node, bad: PeerProcess) -> None:
    bad.do("connect")
    assert "no hello came in time" in bad.expect("error")["reason"]


def test_a_process_of_another_container_is_refused(make_node: MakeNode) -> None:
    node = make_node().start()
    victim, intruder = node.container("victim").await_socket(), node.container("intruder").await_socket()
    process = intruder.process()
    # As if the victim's socket had been mounted into the wrong container.
    (intruder.folder / "victim.sock").hardlink_to(victim.socket)
    process.do("connect", name="victim.sock")
    assert "does not see the folder of default/victim" in process.expect("error")["reason"]
    assert "connection rejected" in node.log


def test_a_process_outside_the_pod_is_refused(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a", pod_uid="6a2f3f5e-0000-4000-8000-000000000001").await_socket()
    process = container.process()
    process.do("connect")
    reason = process.expect("error")["reason"]
    assert "is not in a cgroup of pod 6a2f3f5e-0000-4000-8000-000000000001 (default/a)" in reason


def test_a_process_that_names_another_process_is_known_by_its_own_pid(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}).start()
    victim, intruder = (node.container(pod, 40).await_socket().process() for pod in ("victim", "intruder"))
    victim.hello()
    victim.turn()
    intruder.hello(pid=victim.pid)
    for pod, process in (("victim", victim), ("intruder", intruder)):
        assert [each["pid"] for each in node.session(pod)["processes"]] == [process.pid]
    intruder.end()
    eventually("the intruder has ended", lambda: not node.session("intruder")["processes"])
    assert node.session("victim")["state"] == "Holding"
