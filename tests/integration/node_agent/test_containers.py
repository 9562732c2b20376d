"""Containers come, change and go as the device plugin writes and removes their folders."""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable

from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key, device_id

from tests.support.node_agent.node import Container, Node, eventually

MakeNode = Callable[..., Node]


def pods(node: Node) -> dict[str, str]:
    return {session["pod"]: session["state"] for session in node.get("/sessions")}


def test_a_containers_socket_follows_its_record_soon(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a").await_socket()
    mode = container.socket.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o666, "a container need not run as root"
    assert pods(node) == {"a": "Allocated"}


def test_a_process_that_names_no_gpu_has_the_one_of_its_rank(make_node: MakeNode) -> None:
    """As one whose environment was cleared, so that it does not know which GPUs its container has."""
    node = make_node(lanes={"maxPerGpu": 1}).start()
    ids = tuple(device_id(uuid, 0) for uuid in reversed(node.gpus))
    record = ContainerRecord(
        key=container_key(ids),
        namespace="default",
        pod="two",
        container="trainer",
        device_ids=ids,
        shares=dict.fromkeys(reversed(node.gpus), 1),
    )
    container = Container(node, record)
    container.write()
    container.await_socket()
    ranks = [container.process().hello(local_rank=rank)["gpu"] for rank in range(3)]
    assert ranks == [node.gpus[0], node.gpus[1], node.gpus[0]]
    unknown = container.process()
    unknown.greet()
    assert "send 'local_rank' or name one of" in unknown.expect("error")["reason"]


def test_a_process_that_takes_no_turns_says_why_once(make_node: MakeNode) -> None:
    node = make_node().start()
    process = node.container("a").await_socket().process()
    for n in range(2):
        process.greet(n, framework="torch 1.13", device="", no_turns="its PyTorch is old\nreally")
        assert "closed" in process.receive(n)
    assert node.session("a")["message"] == "its PyTorch is old really"
    assert node.session("a")["processes"] == []
    assert node.log.count("reason=TakesNoTurns") == 1
    process.hello(n=2)
    assert node.session("a")["message"] == "", "it takes turns after all"


def test_containers_from_before_the_agent_are_found(make_node: MakeNode) -> None:
    node = make_node()
    container = node.container("a")
    node.start()
    container.await_socket()


def test_a_container_ends_when_its_folder_is_removed(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a").await_socket()
    process = container.process()
    process.hello()
    process.do("write", word=8, value=3)
    process.end()
    eventually("it is lost", lambda: pods(node) == {"a": "Lost"})
    container.remove()
    eventually("it has ended", lambda: pods(node) == {"a": "Ended"})
    assert node.session("a")["iterations"] == 3
    assert 'pod="a"' not in node.get("/metrics")


def test_a_process_that_says_goodbye_is_not_lost(make_node: MakeNode) -> None:
    node = make_node().start()
    process = node.container("a").await_socket().process()
    process.hello()
    process.send("goodbye")
    process.end()
    eventually("its process has ended", lambda: not node.session("a")["processes"])
    assert pods(node) == {"a": "Allocated"}


def test_bad_records_are_named_and_ignored_and_good_ones_go_on(make_node: MakeNode) -> None:
    node = make_node().start()
    bad = node.container("bad")
    bad.write_text("{")
    bad.write_text(json.dumps({**bad.record.model_dump(), "shares": {node.gpus[0]: 7}}))
    eventually("it is named", lambda: f"{bad.record.key}/container.json: shares:" in node.log)
    stranger = node.container("stranger")
    stranger.write(device_ids=("GPU-of-another-node::0",), shares={"GPU-of-another-node": 1})
    eventually("it is named", lambda: "this node has no GPU GPU-of-another-node" in node.log)
    good = node.container("good").await_socket()
    assert good.socket.exists()
    bad.write_text(bad.record.model_dump_json())
    bad.await_socket()


def test_later_updates_of_a_record_are_applied(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a").await_socket()
    process = container.process()
    process.hello()
    container.write(job="digits", rank=0, pod_uid="6a2f3f5e-0000-4000-8000-000000000001")
    eventually("the job is known", lambda: node.session("a")["job"] == "digits")
    assert process.turn() == 1, "the session goes on"


def test_the_next_owner_of_the_same_ids_is_another_container(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("first", pod_uid="").await_socket()
    process = container.process()
    process.hello()
    container.write(pod="second")
    eventually("the second is there", lambda: "second" in pods(node))
    assert pods(node) == {"second": "Allocated"}
    assert "closed" in process.receive()


def test_a_socket_that_is_taken_away_comes_back(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a").await_socket()
    container.socket.unlink()
    container.await_socket()
    process = container.process()
    process.hello()


def test_deleting_the_folders_ends_no_live_session(make_node: MakeNode) -> None:
    node = make_node().start()
    container = node.container("a").await_socket()
    process = container.process()
    process.hello()
    shutil.rmtree(node.root / "run/laneway/containers", ignore_errors=True)
    assert process.turn() == 1
    container.write()
    container.await_socket()
    assert pods(node) == {"a": "Holding"}


def test_the_inventory_lists_gpus_and_health(make_node: MakeNode) -> None:
    node = make_node(reserveMebibytes=100)
    node.profile = {
        "gpus": [
            {"model": "Big", "memory": "2Gi", "count": 2, "numaNode": 1},
            {"model": "Small", "memory": "1Gi"},
        ],
        "nvlinks": [[0, 1]],
    }
    node.start()
    inventory = json.loads((node.root / "run/laneway/inventory.json").read_text())
    assert inventory["node"] == "n1"
    first, second, third = inventory["gpus"]
    assert (first["model"], first["memory_bytes"], first["numa_node"]) == ("Big", 2 << 30, 1)
    assert first["nvlink_peers"] == [second["uuid"]]
    assert (third["model"], third["numa_node"], third["nvlink_peers"]) == ("Small", None, [])
    assert {gpu["allocatable_percent"] for gpu in inventory["gpus"]} == {800}
    assert {gpu["reserve_bytes"] for gpu in inventory["gpus"]} == {100 << 20}
    assert all(gpu["healthy"] and gpu["simulated"] for gpu in inventory["gpus"])
