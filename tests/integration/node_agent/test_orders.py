"""Orders from the node's shell, followed by a real agent with real processes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.node_agent.node import Container, Node, PeerProcess, eventually
from tests.support.node_agent.shell import order, shell

MakeNode = Callable[..., Node]
PAUSED_WORD = 3


def start(container: Container, *can: str, **hello: Any) -> PeerProcess:
    """A process that is connected and profiled."""
    process = container.await_socket().process()
    process.hello(can=list(can or ("pause", "offload")), **hello)
    process.profile(300, 100)
    return process


def in_state(node: Node, pod: str, state: str) -> dict[str, Any]:
    """Wait until a pod's session is in a state; return it."""
    return dict(
        eventually(f"{pod} is {state}", lambda: (found := node.session(pod))["state"] == state and found)
    )


def offload(node: Node, process: PeerProcess, pod: str = "a") -> dict[str, Any]:
    """Have a pod's only process offloaded."""
    order(node, "offload", f"default/{pod}")
    process.expect("pause")
    process.send("paused")
    process.expect("offload")
    process.do("write", word=11, value=0)
    process.send("offloaded", freed_bytes=300 << 20, seconds=0.1)
    return in_state(node, pod, "Offloaded")


def test_a_holder_is_paused_at_its_boundary_and_goes_on_when_it_is_resumed(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}).start()
    first, second = start(node.container("a")), start(node.container("b"))
    turn = first.turn()
    first.do("write", word=9, value=1)
    assert order(node, "pause", "default/a", "--reason", "by hand") == "default/a: Pause ordered\n"
    first.expect("pause")
    assert first.do("read", word=PAUSED_WORD)["value"] == 1
    second.send("request")
    assert second.receive(wait_seconds=0.5) == {"nothing": True}, "it is inside its iteration"
    first.do("write", word=9, value=0)
    first.send("release", turn=turn, iterations=1, gpu_seconds=0.1)
    others = second.expect("grant")["turn"]
    first.send("paused")
    session = in_state(node, "a", "Paused")
    assert session["message"] == "paused by order (by hand)"
    assert session["lane"] is None
    first.send("request")
    assert first.receive(wait_seconds=0.5) == {"nothing": True}

    order(node, "resume", "default/a")
    first.expect("resume")
    assert first.do("read", word=PAUSED_WORD)["value"] == 0
    second.expect("yield")
    second.send("release", turn=others, iterations=1, gpu_seconds=0.1)
    first.expect("grant")
    assert in_state(node, "a", "Holding")["message"] == ""


def test_memory_of_an_offloaded_container_is_available_until_it_is_restored(
    make_node: MakeNode,
) -> None:
    node = make_node().start()
    first = start(node.container("a", 60))
    session = offload(node, first)
    assert (session["held_bytes"], session["offloaded_bytes"]) == (0, 300 << 20)
    assert "300.0 MiB are on the host" in session["message"]
    second = start(node.container("b", 100))
    second.profile(800, 100)
    eventually("the other has the GPU", lambda: node.session("b")["lane"] is not None)
    promised = f'laneway_gpu_memory_bytes{{gpu_uuid="{node.gpus[0]}",kind="persistent"'
    assert promised in node.get("/metrics")
    offloaded = f'laneway_sessions{{gpu_uuid="{node.gpus[0]}",node="n1",state="Offloaded"}} 1.0'
    assert offloaded in node.get("/metrics")

    order(node, "restore", "default/a")
    eventually("it waits for memory", lambda: "waits for a lane" in node.session("a")["message"])
    assert first.receive(wait_seconds=0.5) == {"nothing": True}
    session = node.session("a")
    assert (session["state"], session["offloaded_bytes"]) == ("Waiting", 300 << 20), "no order is left"
    second.end()
    first.expect("restore")
    assert first.receive(wait_seconds=0.3) == {"nothing": True}, "no turn before the memory is there"
    first.send("request")
    first.send("restored", seconds=0.1)
    first.expect("resume")
    first.expect("grant")


def test_all_processes_of_a_container_answer_before_it_is_paused(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a")
    processes = [start(container), start(container)]
    order(node, "offload", "default/a")
    for process in processes:
        process.expect("pause")
    processes[0].send("paused")
    assert processes[0].receive(wait_seconds=0.3) == {"nothing": True}
    assert node.session("a")["state"] == "Waiting"
    processes[1].send("paused")
    for process in processes:
        process.expect("offload")
    processes[0].send("offloaded", freed_bytes=1, seconds=0.1)
    processes[1].send("refused", order="offload", message="CUDA graphs keep addresses")
    session = in_state(node, "a", "Paused")
    eventually("it is told", lambda: "CUDA graphs keep addresses" in node.session("a")["message"])
    assert session["state"] == "Paused"
    processes[1].end()
    in_state(node, "a", "Offloaded")


def test_a_client_that_can_neither_pause_nor_offload_gets_no_turns(make_node: MakeNode) -> None:
    node = make_node().start()
    process = node.container("a").await_socket().process()
    process.hello()
    order(node, "offload", "default/a")
    session = in_state(node, "a", "Paused")
    assert "cannot move its memory" in session["message"]
    process.send("request")
    assert process.receive(wait_seconds=0.3) == {"nothing": True}
    order(node, "restore", "default/a")
    process.expect("grant")


def test_a_process_that_does_not_answer_is_reported(make_node: MakeNode) -> None:
    node = make_node(turns={"timeoutSeconds": 1}).start()
    process = start(node.container("a"))
    process.turn()
    process.do("write", word=9, value=1)
    order(node, "pause", "default/a")
    process.expect("pause")
    assert "did not" in process.expect("revoke")["reason"]
    eventually("it is told", lambda: "has not answered pause in time" in node.session("a")["message"])
    assert "has not answered pause in 1 s" in node.log


def test_answers_without_the_capability_end_the_connection(make_node: MakeNode) -> None:
    node = make_node().start()
    process = node.container("a").await_socket().process()
    process.hello(can=["pause"])
    process.send("paused")  # late, or early: it is no fault
    process.send("offloaded", freed_bytes=1, seconds=0.1)
    assert "did not list the capability offload" in process.expect("error")["reason"]


def test_an_order_holds_for_processes_that_come_later(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a")
    container.await_socket()
    order(node, "pause", "default/a")
    process = container.process()
    process.hello(can=["pause"])
    process.expect("pause")
    process.send("request")
    process.send("paused")
    in_state(node, "a", "Paused")
    process.end()
    order(node, "resume", "default/a")


def test_an_invalid_orders_file_is_logged_and_changes_nothing(make_node: MakeNode) -> None:
    node = make_node().start()
    process = start(node.container("a"))
    order(node, "pause", "default/a")
    process.expect("pause")
    path = node.root / "run/laneway/orders.json"
    good = path.read_text()
    path.write_text('{"version": 1, "orders": [{"order": "Pause"}]}')
    eventually("it is named", lambda: "which pod? write podUID, or namespace and pod" in node.log)
    process.send("paused")
    in_state(node, "a", "Paused")
    refused = shell(node, "resume", "default/a")
    assert refused.returncode == 1
    assert str(path) in refused.stderr
    path.write_text(good)
    order(node, "resume", "default/a")
    process.expect("resume")


def test_a_deleted_orders_file_means_no_orders(make_node: MakeNode) -> None:
    node = make_node().start()
    process = start(node.container("a"))
    order(node, "pause", "default/a")
    process.expect("pause")
    (node.root / "run/laneway/orders.json").unlink()
    process.expect("resume")


@pytest.mark.parametrize("restart", ["kill", "terminate"])
def test_an_offloaded_container_stays_offloaded_over_a_restart(make_node: MakeNode, restart: str) -> None:
    node = make_node().start()
    process = start(node.container("a", 60))
    offload(node, process)
    eventually("the state is saved", lambda: '"offloaded":true' in node.saved_state)
    getattr(node, restart)()
    node.start()
    eventually("it is known", lambda: node.session("a")["state"] == "Offloaded")
    process.hello(n=1, can=["pause", "offload"], offloaded=True)
    process.expect("pause", n=1)
    process.send("paused", n=1)
    assert process.receive(n=1, wait_seconds=0.3) == {"nothing": True}, "it has done what was ordered"
    assert in_state(node, "a", "Offloaded")["offloaded_bytes"] == 300 << 20
    order(node, "restore", "default/a")
    process.expect("restore", n=1)
    process.send("restored", n=1, seconds=0.1)
    process.expect("resume", n=1)
    process.send("request", n=1)
    process.expect("grant", n=1)


def test_a_process_that_restored_without_an_agent_is_told_again(
    make_node: MakeNode,
) -> None:
    node = make_node().start()
    process = start(node.container("a", 60))
    offload(node, process)
    eventually("the state is saved", lambda: '"offloaded":true' in node.saved_state)
    node.kill()
    node.start()
    process.hello(n=1, can=["pause", "offload"], offloaded=False)
    process.expect("pause", n=1)
    process.send("paused", n=1)
    process.expect("offload", n=1)
    assert node.session("a")["state"] == "Paused"
    process.send("offloaded", n=1, freed_bytes=300 << 20, seconds=0.1)
    in_state(node, "a", "Offloaded")


def test_a_pausing_holder_keeps_its_turn_over_a_crash_of_the_agent(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}).start()
    holder, other = start(node.container("a")), start(node.container("b"))
    holder.turn()
    holder.do("write", word=9, value=1)
    order(node, "pause", "default/a")
    holder.expect("pause")

    def is_saved() -> bool:
        state = json.loads(node.saved_state or '{"gpus": []}')
        holds = [lease for gpu in state["gpus"] for lease in gpu["leases"]]
        return sum(bool(lease["processes"]) for lease in holds) == 2

    eventually("the state is saved", is_saved)
    node.kill()
    node.start()
    other.hello(n=1, can=["pause"])
    other.send("request", n=1)
    holder.hello(n=1, can=["pause"], holds_turn=True)
    holder.do("write", word=9, value=1, n=1)
    turn = holder.expect("grant", n=1)["turn"]
    holder.expect("pause", n=1)
    assert other.receive(n=1, wait_seconds=0.5) == {"nothing": True}
    holder.do("write", word=9, value=0, n=1)
    holder.send("release", n=1, turn=turn, iterations=1, gpu_seconds=0.1)
    holder.send("paused", n=1)
    other.expect("grant", n=1)
    in_state(node, "a", "Paused")


def test_a_container_that_goes_while_it_is_offloaded_leaves_its_ids_free(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a", 60)
    process = start(container)
    offload(node, process)
    process.end()
    eventually("its process is gone", lambda: not node.session("a")["processes"])
    container.remove()
    in_state(node, "a", "Ended")
    later = container
    later.write(pod="later")
    fresh = start(later)
    assert fresh.turn() == 1, "the order was to another pod"


def test_the_shell_confirms_orders_and_refuses_impossible_ones(make_node: MakeNode) -> None:
    node = make_node().start()
    node.container("a", pod_uid="uid-of-a").await_socket()
    refused = shell(node, "pause", "default/nobody")
    assert refused.returncode == 1
    assert (
        "no container of default/nobody holds a share of this node's GPUs; pods that do: default/a"
        in refused.stderr
    )
    assert "write NAMESPACE/POD" in shell(node, "pause", "nobody").stderr
    assert "has no order to default/a" in shell(node, "resume", "default/a").stderr
    order(node, "offload", "default/a", "--reason", "a test")
    assert order(node, "list") == "shell\tOffload\tdefault/a\ta test\n"
    assert "write `order restore default/a`" in shell(node, "resume", "default/a").stderr
    order(node, "restore", "default/a")
    assert order(node, "list") == "no orders\n"
