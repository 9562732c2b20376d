"""Turns between real processes, over real sockets."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from tests.support.node_agent.granted_turns import length_seconds
from tests.support.node_agent.node import Node, PeerProcess, eventually, overlaps

MakeNode = Callable[..., Node]


def trainers(node: Node, *pods: str, gpu: int = 0) -> list[PeerProcess]:
    """One process in one container a pod, profiled small."""
    processes = []
    for pod in pods:
        process = node.container(pod, 100 // len(pods) * 2, gpu=gpu).await_socket().process()
        process.hello()
        process.profile(50, 100)
        processes.append(process)
    return processes


def ended_turns(node: Node) -> list[dict[str, Any]] | None:
    """The turns, once none is in progress."""
    turns = node.get("/turns")
    return turns if all(turn["end"] for turn in turns) else None


def test_turns_never_overlap_in_a_lane_and_do_across_lanes(make_node: MakeNode) -> None:
    node = make_node(turns={"quantumMilliseconds": 20}, lanes={"maxPerGpu": 2}).start()
    processes = trainers(node, "a", "b", "c")
    eventually("all are profiled", lambda: all(s["sizes"] for s in node.get("/sessions")))
    lanes = {s["pod"]: s["lane"] for s in node.get("/sessions")}
    assert len(set(lanes.values())) == 2
    for process in processes:
        process.start("train", seconds=3, iteration_seconds=0.005)
    done = [process.finish()["iterations"] for process in processes]
    turns = eventually("all turns have ended", lambda: ended_turns(node))
    for lane in set(lanes.values()):
        assert overlaps([turn for turn in turns if turn["lane"] == lane]) == []
    assert overlaps(turns), "the lanes run side by side"
    (shared,) = [lane for lane in set(lanes.values()) if list(lanes.values()).count(lane) == 2]
    first, second = (done[i] for i, pod in enumerate("abc") if lanes[pod] == shared)
    for began, ended in first:
        assert not any(began < other_end and other_began < ended for other_began, other_end in second)
    assert sum(turn["iterations"] for turn in turns) == sum(map(len, done))
    # By the agent's record of turns: in a turn that a busy machine lengthens there are few iterations. It is made up for later,
    # unless it was one of the last.
    lengths = [
        [length_seconds(turn) for turn in turns if turn["pod"] == pod]
        for pod, lane in lanes.items()
        if lane == shared
    ]
    held_seconds = sorted(map(sum, lengths))
    longest_seconds = max(map(max, lengths))
    assert held_seconds[0] > held_seconds[1] / 2 - longest_seconds, "they share the lane equally"
    for lane in set(lanes.values()):
        of_lane = [turn for turn in turns if turn["lane"] == lane]
        since_seconds = min(turn["start_seconds"] for turn in of_lane)
        until_seconds = max(turn["end_seconds"] for turn in of_lane)
        assert sum(map(length_seconds, of_lane)) > (until_seconds - since_seconds) / 2, "each lane goes on"


def test_a_killed_holder_frees_its_lane_even_if_a_child_keeps_its_socket(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}).start()
    first, second = trainers(node, "a", "b")
    first.turn()
    child = first.do("fork_holding_connections")["child"]
    second.send("request")
    first.kill()
    try:
        second.expect("grant")
        assert [turn["end"] for turn in node.get("/turns") if turn["pod"] == "a"] == ["died"]
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_stopped_holder_loses_its_turn_within_the_bound(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"timeoutSeconds": 1, "quantumMilliseconds": 10}).start()
    first, second = trainers(node, "a", "b")
    first.turn()
    first.do("write", word=9, value=1)
    first.kill(signal.SIGSTOP)
    second.send("request")
    sentence = "Waiting for default/a to release its memory: it did not yield within 1 s."
    eventually("the reason is told", lambda: sentence in node.session("b")["message"])
    assert second.receive(wait_seconds=0.5) == {"nothing": True}, "the first may still use its memory"
    first.kill(signal.SIGCONT)
    revoked = first.expect("revoke")
    assert "yield" in revoked["reason"]
    assert first.do("read", word=1)["value"] == 0
    first.do("write", word=9, value=0)
    first.send("release", turn=revoked["turn"], iterations=1, gpu_seconds=0.0)
    second.expect("grant")
    assert node.session("b")["message"] == ""
    counted = f'laneway_turns_revoked_total{{gpu_uuid="{node.gpus[0]}",node="n1",reason="stalled"}} 1.0'
    assert counted in node.get("/metrics")


def test_a_process_that_waits_for_its_data_loader_yields_its_lane(make_node: MakeNode) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 60_000}).start()
    for process in trainers(node, "a", "b"):
        process.start("train", seconds=600, iteration_seconds=0.2, gap_seconds=0.2)

    def is_handed_over_in_gaps() -> bool:
        turns = [turn for turn in node.get("/turns") if turn["end"] == "released"]
        handed = [turn["pod"] for turn in turns]
        # A turn that lasted through the gaps would last for the whole test. Each holds only one iteration, unless no other session
        # waits when the iteration ends, such as one that a busy machine has paused.
        one_each = len(handed) > sum(turn["iterations"] for turn in turns) / 2
        return one_each and min(handed.count("a"), handed.count("b")) > max(6, len(handed) / 3)

    eventually("they hand over in their gaps", is_handed_over_in_gaps)


def test_counters_and_records_match_the_turns(make_node: MakeNode) -> None:
    node = make_node().start()
    (process,) = trainers(node, "a")
    process.start("train", seconds=1, iteration_seconds=0.02)
    done = process.finish()["iterations"]
    session = node.session("a")
    assert session["iterations"] == len(done)
    assert session["turns"] == 1
    assert abs(session["gpu_seconds"] - sum(end - begin for begin, end in done)) < 0.01
    (turn,) = node.get(f"/turns?gpu={node.gpus[0]}")
    assert turn["iterations"] == len(done)
    assert turn["end"] == "released"
    assert node.get("/turns?since=%f" % (turn["end_seconds"] + 1)) == []
    assert node.get(f"/turns?gpu={node.gpus[1]}") == []
    utilization = f'laneway_gpu_utilization_ratio{{gpu_uuid="{node.gpus[0]}",node="n1"}}'
    eventually("the GPU was used", lambda: utilization in node.get("/metrics"))
