"""A real agent, and programs without iterations that take turns through the interposer's launch gate."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from laneway.api.container_record import ContainerRecord
from laneway.api.device_ids import container_key, device_id

from tests.support.isolation.building import PROGRAMS, ROOT
from tests.support.isolation.fake_devices import make_device
from tests.support.isolation.gated_program import GatedProgram, KernelLog
from tests.support.node_agent.node import Container, Node, eventually, nodes_below, overlaps
from tests.support.node_agent.pod_cgroup import PodCgroup

MakeNode = Callable[..., Node]
Start = Callable[..., GatedProgram]

KERNEL = 300  # µs
ENDLESS = 3_600_000_000
CLIENT = PROGRAMS / "client_that_launches.py"


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[MakeNode]:
    with nodes_below(tmp_path) as make:
        yield make


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    folder = tmp_path / "devices"
    folder.mkdir()
    make_device(folder, 0, 1 << 30)
    return folder


@pytest.fixture
def log(devices: Path) -> KernelLog:
    return KernelLog(devices)


@pytest.fixture
def start(devices: Path) -> Iterator[Start]:
    """Start programs in containers; they end with the test."""
    started: list[GatedProgram] = []

    def start(container: Container, *command: str | Path) -> GatedProgram:
        started.append(GatedProgram(container, devices, *command))
        return started[-1]

    yield start
    for program in started:
        program.end()


def one_lane(make_node: MakeNode, quantum_milliseconds: int = 20, timeout_seconds: int = 30) -> Node:
    turns = {"quantumMilliseconds": quantum_milliseconds, "timeoutSeconds": timeout_seconds}
    return make_node(lanes={"maxPerGpu": 1}, turns=turns).start()


def turns_of(node: Node, pod: str) -> int:
    return int(node.session(pod)["turns"])


@pytest.mark.parametrize("what", ["kernels", "graphs"])
def test_programs_of_one_lane_never_run_kernels_at_once(
    make_node: MakeNode, start: Start, log: KernelLog, what: str
) -> None:
    node = one_lane(make_node)
    programs = {pod: start(node.container(pod)) for pod in ("a", "b")}
    for program in programs.values():
        if what == "graphs":
            program.do("capture", KERNEL)
        program.do("run", KERNEL)
    for pod in programs:
        eventually(f"{pod} had its turns", lambda pod=pod: turns_of(node, pod) >= 6)
    for program in programs.values():
        assert program.do("stop") > 20
    assert len({kernel[0] for kernel in log.kernels()}) == 2
    assert log.overlaps() == []
    assert overlaps(node.get("/turns")) == []


def test_a_program_alone_keeps_its_turn(make_node: MakeNode, start: Start) -> None:
    node = one_lane(make_node)
    program = start(node.container("a"))
    program.do("run", KERNEL)
    eventually("it launches", lambda: node.session("a")["gpu_seconds"] > 0.2)
    assert turns_of(node, "a") == 1
    program.do("stop")
    eventually("it counts as idle", lambda: not node.session("a")["processes"][0]["inside"])


def test_a_program_that_ends_leaves_its_container_allocated(make_node: MakeNode, start: Start) -> None:
    node = one_lane(make_node)
    program = start(node.container("a"))
    program.do("once", KERNEL)
    assert node.session("a")["state"] == "Holding"
    assert program.leave() == 0
    eventually("its turn is over", lambda: node.session("a")["state"] == "Allocated")


@pytest.mark.parametrize("begin", ["begin_capture", "begin_recapture"])
def test_a_capture_is_not_disturbed_and_ends_before_the_turn(
    make_node: MakeNode, start: Start, log: KernelLog, begin: str
) -> None:
    node = one_lane(make_node, quantum_milliseconds=5)
    captures, waits = start(node.container("captures")), start(node.container("waits"))
    captures.do(begin, KERNEL)
    waits.start("once", KERNEL)
    (turn,) = node.get("/turns")
    eventually("the quantum is over", lambda: time.time() > turn["start_seconds"] + 0.5)
    captures.do("once", KERNEL)
    assert log.kernels() == [], "the kernels of a capture do not run, and the other one waits"
    captures.do("end_capture")
    waits.finish()
    assert log.of(waits.pid) == 1


def test_a_program_that_jumps_out_of_its_wait_waits_again(
    make_node: MakeNode, start: Start, log: KernelLog
) -> None:
    node = one_lane(make_node, quantum_milliseconds=3000)
    holder = start(node.container("holder"))
    holder.do("run", KERNEL)
    eventually("it holds the turn", lambda: log.of(holder.pid) > 0)
    jumper = start(node.container("jumper"))
    assert jumper.do("jump_out", KERNEL) == 5
    assert turns_of(node, "jumper") > 0
    assert log.overlaps() == []
    holder.do("stop")


def test_a_handler_that_launches_inside_the_wait_waits_too(
    make_node: MakeNode, start: Start, log: KernelLog
) -> None:
    node = one_lane(make_node, quantum_milliseconds=3000)
    holder = start(node.container("holder"))
    holder.do("run", KERNEL)
    eventually("it holds the turn", lambda: log.of(holder.pid) > 0)
    waits = start(node.container("waits"))
    assert waits.do("interrupted", KERNEL) == 2
    assert turns_of(node, "waits") > 0
    assert log.overlaps() == []
    holder.do("stop")


def test_a_capture_ends_with_its_context(make_node: MakeNode, start: Start, log: KernelLog) -> None:
    node = one_lane(make_node)
    captures, waits = start(node.container("captures")), start(node.container("waits"))
    captures.do("capture_until_the_contexts_end", KERNEL)
    assert waits.do("once", KERNEL) == 1
    assert log.of(waits.pid) == 1
    assert turns_of(node, "waits") == 1


def test_the_end_of_a_child_ends_no_turn_of_its_parent(
    make_node: MakeNode, start: Start, log: KernelLog
) -> None:
    node = one_lane(make_node, quantum_milliseconds=60_000)
    parent = start(node.container("parent"))
    parent.do("once", KERNEL)
    parent.do("clone_and_exit")
    waits = start(node.container("waits"))
    waits.start("once", KERNEL)
    eventually("the other one waits", lambda: node.session("waits")["processes"])
    assert node.session("parent")["state"] == "Holding"
    assert log.of(waits.pid) == 0


def test_a_green_context_that_is_gone_is_not_waited_for(make_node: MakeNode, start: Start) -> None:
    node = one_lane(make_node)
    program, other = start(node.container("green")), start(node.container("other"))
    program.do("once_in_green", KERNEL)
    other.do("run", KERNEL)
    program.do("run", KERNEL)
    eventually("its turns end", lambda: turns_of(node, "green") >= 3)
    program.do("stop")
    other.do("stop")


def test_the_thread_of_the_gate_blocks_no_signal_of_libc(
    make_node: MakeNode, start: Start, log: KernelLog
) -> None:
    program = start(one_lane(make_node).container("program"))
    program.do("once", KERNEL)
    (thread,) = (
        task
        for task in Path(f"/proc/{program.pid}/task").iterdir()
        if "laneway-gate" in (task / "comm").read_text()
    )
    (blocked,) = re.findall(r"^SigBlk:\s+(\w+)$", (thread / "status").read_text(), re.MULTILINE)
    signals_of_libc = (1 << 31) | (1 << 32)
    assert int(blocked, 16) & signals_of_libc == 0


def test_a_child_takes_turns_of_its_own(make_node: MakeNode, start: Start, log: KernelLog) -> None:
    node = one_lane(make_node)
    busy, parent = start(node.container("busy")), start(node.container("parent"))
    busy.do("run", KERNEL)
    parent.do("fork_and_launch", KERNEL)
    parent.do("once", KERNEL)
    busy.do("stop")
    of_others = {kernel[0] for kernel in log.kernels()} - {busy.pid}
    assert len(of_others) == 2, "the child and its parent"
    assert log.overlaps() == []


def test_an_agent_that_dies_opens_the_gate_and_its_successor_closes_it(
    make_node: MakeNode, start: Start, log: KernelLog
) -> None:
    node = one_lane(make_node, quantum_milliseconds=60_000)
    holds, waits = start(node.container("holds")), start(node.container("waits"))
    holds.do("once", KERNEL)
    waits.start("once", KERNEL)
    eventually("the other one waits", lambda: node.session("waits")["processes"])
    assert log.of(waits.pid) == 0
    node.kill()
    waits.finish()
    for program in (holds, waits):
        program.do("run", KERNEL)
    node.config["turns"]["quantumMilliseconds"] = 20
    node.start()
    for pod in ("holds", "waits"):
        eventually(f"{pod} had its turns", lambda pod=pod: turns_of(node, pod) >= 3)
    since_ns = time.monotonic_ns()
    for pod in ("holds", "waits"):
        before = turns_of(node, pod)
        eventually(f"{pod} had more turns", lambda pod=pod, before=before: turns_of(node, pod) >= before + 3)
    for program in (holds, waits):
        program.do("stop")
    assert log.overlaps(since_ns) == []


def test_a_program_without_an_agent_is_not_gated(make_node: MakeNode, start: Start, log: KernelLog) -> None:
    node = one_lane(make_node)
    program = start(node.container("a"))
    assert program.pid
    node.kill()
    assert program.do("once", KERNEL) == 1
    assert log.of(program.pid) == 1


@pytest.mark.skipif(
    os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
)
def test_a_program_that_does_not_leave_the_gpu_is_stopped(
    make_node: MakeNode, start: Start, log: KernelLog
) -> None:
    node = make_node(
        health={"probeSeconds": 1},
        lanes={"maxPerGpu": 1},
        turns={"timeoutSeconds": 1, "quantumMilliseconds": 10},
        watchdog={"graceSeconds": 1, "killSeconds": 600},
    ).start()
    pod = PodCgroup()
    try:
        endless, waits = start(node.container("endless")), start(node.container("waits"))
        pod.take_pid(endless.pid)
        endless.container.write(pod_uid=pod.uid)
        endless.do("once", ENDLESS)
        waits.start("once", KERNEL)
        eventually("it is stopped", lambda: node.session("endless")["processes"] == [])
        waits.finish()
    finally:
        pod.remove()
    assert node.session("endless")["evicted"] == "TurnNotReleased"
    assert log.of(waits.pid) == 1


@pytest.mark.parametrize("first", ["client", "gate"])
def test_a_process_whose_client_takes_turns_is_not_gated_as_well(
    make_node: MakeNode, start: Start, log: KernelLog, first: str
) -> None:
    node = one_lane(make_node, quantum_milliseconds=60_000)
    program = start(node.container("python"), "env", f"PYTHONPATH={ROOT}", sys.executable, CLIENT)
    if first == "gate":
        program.do("once", KERNEL)
        assert node.session("python")["state"] == "Holding"
    program.do("hello")
    eventually("the gate has no turn", lambda: node.session("python")["state"] == "Waiting")
    other = start(node.container("other"))
    program.do("once", KERNEL)
    launched = log.of(program.pid)
    assert launched == (2 if first == "gate" else 1), "it launches although its client has no turn"
    processes: list[dict[str, Any]] = node.session("python")["processes"]
    assert [process["pid"] for process in processes if process["connected"]] == [program.pid]
    assert turns_of(node, "python") == (1 if first == "gate" else 0)
    assert other.pid


def test_a_container_with_several_gpus_has_no_gate(make_node: MakeNode, start: Start, log: KernelLog) -> None:
    node = one_lane(make_node)
    ids = tuple(device_id(uuid, 0) for uuid in node.gpus)
    container = Container(
        node,
        ContainerRecord(
            key=container_key(ids),
            namespace="default",
            pod="two",
            container="trainer",
            device_ids=ids,
            shares=dict.fromkeys(node.gpus, 1),
        ),
    )
    container.write()
    program = start(container)
    program.do("once", KERNEL)
    assert log.of(program.pid) == 1
    assert all(session["turns"] == 0 for session in node.get("/sessions"))
