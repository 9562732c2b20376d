"""A holder that does not release stalls a gang over several nodes: it is stopped, and no worker of the gang is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from tests.support.node_agent.node import Container, Node, PeerProcess
from tests.support.node_agent.pod_cgroup import PodCgroup

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="pods' cgroups are root's")

MakeNode = Callable[..., Node]
MakePod = Callable[[], PodCgroup]

CONFIG = {
    "health": {"probeSeconds": 1},
    "lanes": {"maxPerGpu": 1},
    "turns": {"timeoutSeconds": 1, "quantumMilliseconds": 10},
    "watchdog": {"graceSeconds": 1, "killSeconds": 1},
}


def connect(node: Node, pod: str, cgroup: PodCgroup, *, spans_gpus: bool = False) -> PeerProcess:
    container: Container = node.container(pod, 40, pod_uid=cgroup.uid, spans_gpus=spans_gpus).await_socket()
    process = container.process()
    cgroup.take(process)
    process.hello()
    process.profile(10, 10)
    return process


def begin_iteration(process: PeerProcess) -> int:
    """Take a turn and stay inside an iteration."""
    turn = process.turn()
    process.do("write", word=9, value=1)
    return turn


def end_iteration(process: PeerProcess, turn: int) -> None:
    process.do("write", word=9, value=0)
    process.send("release", turn=turn, iterations=1, gpu_seconds=0.1)


def test_a_stopped_holder_on_another_node_costs_no_worker_of_a_gang_its_turn(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    near, far = (make_node(**CONFIG).start() for _ in range(2))
    first = connect(near, "gang-0", make_pod(), spans_gpus=True)
    second = connect(far, "gang-1", make_pod(), spans_gpus=True)
    neighbour = connect(near, "neighbour", make_pod())
    hostile = connect(far, "hostile", make_pod())

    begin_iteration(hostile)
    hostile.kill(signal.SIGSTOP)
    second.send("request")
    turn = begin_iteration(first)  # it now waits for the second, as in an all-reduce
    neighbour.send("request")

    granted = second.expect("grant")["turn"]
    assert far.session("hostile")["evicted"] == "TurnNotReleased"
    assert near.session("gang-0")["state"] == "Holding"
    assert (near.session("gang-0")["evicted"], far.session("gang-1")["evicted"]) == ("", "")
    end_iteration(second, granted)
    end_iteration(first, turn)
    neighbour.expect("grant")
    assert [each["end"] for each in near.get("/turns") if each["pod"] == "gang-0"] == ["released"]
