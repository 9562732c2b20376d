"""A real agent, and programs that compute on a simulated GPU whether or not their container has the turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.node_agent.node import Container, Node, eventually
from tests.support.node_agent.pod_cgroup import PodCgroup

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
)

ROOT = Path(__file__).resolve().parents[3]
COMPUTES = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.support.node_agent.simulated_device import SimulatedDevice
device = SimulatedDevice(Path(sys.argv[2]), Path(sys.argv[3]))
print("ready", flush=True)
while True:
    device.run(0.05)
"""
ACCUSATION = "its processes compute without a turn while others of its lane take turns"

MakeNode = Callable[..., Node]
MakePod = Callable[[], PodCgroup]


def start(make_node: MakeNode, **watchdog: Any) -> Node:
    """A node whose GPU has one lane, so that all containers take turns."""
    node = make_node(
        lanes={"maxPerGpu": 1},
        health={"probeSeconds": 1},
        watchdog={"graceSeconds": 1, "killSeconds": 600, **watchdog},
    )
    return node.start()


def computes(node: Node, pod: PodCgroup, container: Container) -> subprocess.Popen[str]:
    """Start a program that computes all the time, on a device of its own, so that it is never slowed."""
    device = node.root / f"device-of-{container.record.pod}"
    kernels = node.root / "run/laneway/simulated-kernels/0"
    return pod.run([sys.executable, "-c", COMPUTES, str(ROOT), str(device), str(kernels)], container)


def both(node: Node, make_pod: MakePod) -> tuple[subprocess.Popen[str], subprocess.Popen[str]]:
    """Return two programs that compute: one of a container that holds the turn, one of a container that never asks for it."""
    programs = []
    for name in ("honest", "hostile"):
        pod = make_pod()
        container = node.container(name, 40, pod_uid=pod.uid).await_socket()
        if name == "honest":
            process = container.process()
            pod.take(process)
            process.hello()
            process.turn()
        programs.append(computes(node, pod, container))
    return programs[0], programs[1]


def unscheduled_seconds(node: Node, pod: str) -> float:
    start = f'laneway_unscheduled_seconds_total{{gpu_uuid="{node.gpus[0]}",namespace="default",node="n1",pod="{pod}",'
    (line,) = [line for line in node.get("/metrics").splitlines() if line.startswith(start)]
    return float(line.split()[-1])


def test_only_the_container_that_computes_without_a_turn_is_stopped(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = start(make_node)
    honest, hostile = both(node, make_pod)
    eventually("it is stopped", lambda: hostile.poll() is not None, 120)
    assert hostile.returncode == -signal.SIGTERM
    session = node.session("hostile")
    assert session["evicted"] == "ComputesWithoutTurn"
    assert f"stopped by the node agent after 1 s of grace: {ACCUSATION}" in session["message"]
    assert unscheduled_seconds(node, "hostile") > 6
    assert honest.poll() is None
    assert node.session("honest")["message"] == ""
    assert node.session("honest")["state"] == "Holding"


def test_a_node_can_be_told_to_warn_only(make_node: MakeNode, make_pod: MakePod) -> None:
    node = start(make_node, computeWithoutTurn="Warn")
    _, hostile = both(node, make_pod)
    warning = f"{ACCUSATION}: run it with the client, or request whole GPUs; no process is stopped (watchdog.computeWithoutTurn: Warn)"
    eventually("it is warned", lambda: warning in node.session("hostile")["message"], 120)
    assert warning in node.log
    assert hostile.poll() is None
    assert node.session("hostile")["evicted"] == ""


def test_a_holder_that_computes_and_says_that_it_is_idle_takes_turns_with_the_other_lanes(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node(health={"probeSeconds": 1}).start()
    processes = []
    for name in ("honest", "ghost"):
        pod = make_pod()
        container = node.container(name, 40, pod_uid=pod.uid).await_socket()
        process = container.process()
        pod.take(process)
        process.hello()
        process.profile(10, 10)
        process.turn()
        computes(node, pod, container)
        processes.append(process)
    assert node.session("honest")["lane"] != node.session("ghost")["lane"]
    processes[0].do("write", word=9, value=1)
    eventually(
        "one of them is to yield", lambda: any(each.do("read", word=2)["value"] for each in processes), 60
    )
