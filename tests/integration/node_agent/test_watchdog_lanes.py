"""The watchdog and lanes: holders that keep their memory, and jobs that their lane does not cover."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.node_agent.node import eventually
from tests.support.node_agent.watched_processes import (
    QUICK,
    MakeNode,
    MakePod,
    connect,
    driver_sees,
    ended,
    message,
    start,
    works,
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
)


def test_a_revoked_holder_that_keeps_its_lane_is_stopped_and_the_lane_goes_on(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node(
        health=QUICK,
        lanes={"maxPerGpu": 1},
        turns={"timeoutSeconds": 1, "firstIterationSeconds": 2, "quantumMilliseconds": 10},
        watchdog={"graceSeconds": 1, "killSeconds": 600},
    ).start()
    first, second = make_pod(), make_pod()
    keeps = connect(node.container("keeps", 40, pod_uid=first.uid), first)
    waits = connect(node.container("waits", 40, pod_uid=second.uid), second)
    keeps.turn()
    keeps.do("write", word=9, value=1)
    waits.send("request")
    eventually("it is stopped", lambda: node.session("keeps")["processes"] == [])
    waits.expect("grant")
    assert node.session("keeps")["evicted"] == "TurnNotReleased"
    assert "does not release its memory after turn 1 of lane 0" in message(node, "keeps")


def test_a_lane_waits_for_memory_that_the_driver_still_shows(make_node: MakeNode, make_pod: MakePod) -> None:
    node = make_node(health=QUICK, lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 10}).start()
    first, second = make_pod(), make_pod()
    dies = connect(node.container("dies", 40, pod_uid=first.uid), first)
    waits = connect(node.container("waits", 40, pod_uid=second.uid), second)
    driver_sees(node, **{f"p{dies.pid}": 300})
    eventually("the watchdog holds it", lambda: node.session("dies")["enforcement"] == "Watchdog")
    dies.turn()
    waits.send("request")
    dies.kill()
    sentence = "Waiting for default/dies to release its memory: it lost its connection to the node agent."
    eventually("the reason is told", lambda: sentence in message(node, "waits"))
    assert waits.receive(wait_seconds=1.5) == {"nothing": True}
    driver_sees(node)
    waits.expect("grant")


def test_memory_of_a_process_without_a_session_does_not_keep_the_lane_of_a_holder_that_died(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    node = make_node(
        health=QUICK,
        lanes={"maxPerGpu": 1},
        turns={"timeoutSeconds": 1, "quantumMilliseconds": 10},
        watchdog={"graceSeconds": 1, "killSeconds": 600},
    ).start()
    first, second = make_pod(), make_pod()
    container = node.container("dies", 40, pod_uid=first.uid)
    dies = connect(container, first)
    beside = works(first, container)
    waits = connect(node.container("waits", 40, pod_uid=second.uid), second)
    driver_sees(node, **{f"p{beside.pid}": 100})
    eventually("the watchdog holds it", lambda: node.session("dies")["enforcement"] == "Watchdog")
    dies.turn()
    dies.kill()
    waits.send("request")
    assert ended(beside) == -signal.SIGTERM
    waits.expect("grant")
    assert node.session("dies")["evicted"] == "TurnNotReleased"


def test_uncovered_growth_is_stopped_after_the_grace(make_node: MakeNode, make_pod: MakePod) -> None:
    node = start(make_node)
    first, second = make_pod(), make_pod()
    stays = connect(node.container("stays", 100, pod_uid=first.uid), first)
    stays.turn()
    stays.profile(500, 100)
    grows = connect(node.container("grows", 100, pod_uid=second.uid), second)
    grows.send("request")
    grows.profile(200, 50)
    grows.profile(600, 50)
    eventually("it is stopped", lambda: node.session("grows")["processes"] == [], 40)
    assert node.session("grows")["evicted"] == "MemoryNotCovered"
    assert "gets no turns" in message(node, "grows")
    assert len(node.session("stays")["processes"]) == 1
