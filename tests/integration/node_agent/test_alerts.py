"""A real Prometheus beside a real agent: its alerts fire in their faults."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest
from laneway.api.names import INTERPOSER_NAME, PRELOAD_NAME

from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.watched_processes import (
    QUICK,
    MakeNode,
    MakePod,
    driver_sees,
    gpu,
    start,
    works,
)
from tests.support.prometheus_process import Prometheus, prometheus


def in_order(server: Prometheus) -> None:
    """Wait until the agent is scraped, and nothing but the missing operator is wrong. An agent that has not read its GPUs yet
    shows a lower level of enforcement."""
    eventually("the agent is scraped", lambda: server.samples("laneway_gpu_info"))
    eventually("nothing else is wrong", lambda: set(server.firing()) == {"LanewayOperatorDown"})


def page(node: Node) -> dict[str, str]:
    return {"agent": f"127.0.0.1:{node.port}/metrics"}


def test_a_gpu_that_falls_off_the_bus(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(health=QUICK).start()
    with prometheus(tmp_path, page(node), at_once=True) as server:
        in_order(server)
        faults = node.root / "run/laneway/simulated-faults.yaml"
        faults.write_text("gpus: [{gpu: 0, xids: [13]}, {gpu: 1, xids: [79]}]")
        # An alert is not there while a scrape has failed, so its labels are those of the look that found it.
        for name in ("LanewayGPUUnhealthy", "LanewayGPUXIDErrors"):
            alerts = eventually(f"{name} fires", partial(server.alerts, name))
            assert [alert["gpu_uuid"] for alert in alerts] == [node.gpus[1]], "XID 13 is an application's own"
        assert alerts[0]["class"] == "reset"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may stop the processes of pods")
def test_a_container_that_exceeds_its_quota(make_node: MakeNode, make_pod: MakePod, tmp_path: Path) -> None:
    node = start(make_node)
    pod = make_pod()
    container = node.container("greedy", 50, pod_uid=pod.uid).await_socket()
    with prometheus(tmp_path, page(node), at_once=True) as server:
        in_order(server)
        process = works(pod, container)
        driver_sees(node, **{f"p{process.pid}": 600})
        (labels,) = eventually("its alert fires", partial(server.alerts, "LanewayWatchdogEvictions"))
        assert (labels["namespace"], labels["reason"]) == ("default", "MemoryQuotaExceeded")


def test_a_session_that_does_not_yield_its_turns(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"timeoutSeconds": 1}).start()
    stalls, waits = (node.container(pod, 100).await_socket().process() for pod in ("stalls", "waits"))
    for process in (stalls, waits):
        process.hello()
        process.profile(50, 100)
    with prometheus(tmp_path, page(node), at_once=True, revokedTurns=1) as server:
        in_order(server)

        def loses_a_turn() -> bool:
            stalls.turn()
            waits.send("request")
            stalls.expect("yield")
            lost = stalls.expect("revoke")["turn"]
            stalls.send("release", turn=lost, iterations=0, gpu_seconds=0.0)
            waits.send("release", turn=waits.expect("grant")["turn"], iterations=0, gpu_seconds=0.0)
            return server.fires("LanewayTurnsRevoked", gpu_uuid=node.gpus[0], reason="stalled")

        eventually("its alert fires", loses_a_turn)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may stop the processes of pods")
def test_a_node_that_loses_the_memory_interposer(make_node: MakeNode, tmp_path: Path) -> None:
    node = make_node(health=QUICK, enforcement={"level": "Interposer"})
    client = node.root / "var/lib/laneway/client"
    client.mkdir(parents=True)
    for name in (INTERPOSER_NAME, PRELOAD_NAME):
        (client / name).touch()
    node.start()
    eventually("the level is in force", lambda: gpu(node)["enforcement"] == "Interposer")
    with prometheus(tmp_path, page(node), at_once=True) as server:
        in_order(server)
        (client / PRELOAD_NAME).unlink()
        for uuid in node.gpus:
            lowered = partial(server.fires, "LanewayEnforcementLowered", gpu_uuid=uuid)
            eventually("its alert fires", lowered)
        (client / PRELOAD_NAME).touch()
        eventually("its alert ends", lambda: not server.fires("LanewayEnforcementLowered"))
