"""The watchdog and lanes: holders that keep their memory, and jobs that their lane does not cover."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.node_agent.node import Node, eventually
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

HOSTILE = Path(__file__).with_name("hostile_process.py")

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="pods' cgroups are root's, and so is the right to stop their processes"
)


def logged_seconds(node: Node, text: str) -> float:
    """Return when the first line with a text was logged, in seconds since 1970."""
    line = next(line for line in node.log.splitlines() if text in line)
    return datetime.fromisoformat(line[: len("2026-01-01 00:00:00,000")].replace(",", ".")).timestamp()


class AgentSeen:
    """Waits for conditions, and measures for how long the agent did not answer meanwhile: then it did not look at its GPUs either."""

    def __init__(self, node: Node) -> None:
        self.longest_seconds = 0.0
        """From one answer to the next."""

        self._node = node
        self._answered_seconds = time.monotonic()

    def eventually(self, what: str, holds: Callable[[], Any]) -> None:
        """Wait for a condition."""
        eventually(what, lambda: self._answers() and holds())

    def _answers(self) -> bool:
        if self._node.is_healthy():
            before, self._answered_seconds = self._answered_seconds, time.monotonic()
            self.longest_seconds = max(self.longest_seconds, self._answered_seconds - before)
            return True
        return False


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


def test_a_hog_that_falls_silent_after_its_revocation_is_stopped_after_patience_and_grace(
    make_node: MakeNode, make_pod: MakePod
) -> None:
    timeout_seconds, grace_seconds = 2, 4
    node = make_node(
        health=QUICK,
        lanes={"maxPerGpu": 1},
        turns={"timeoutSeconds": timeout_seconds, "quantumMilliseconds": 10},
        watchdog={"graceSeconds": grace_seconds, "killSeconds": 600},
    ).start()
    first, second = make_pod(), make_pod()
    hog = node.container("hog", 40, pod_uid=first.uid).await_socket().process(HOSTILE)
    first.take(hog)
    neighbour = connect(node.container("neighbour", 40, pod_uid=second.uid), second)
    seen = AgentSeen(node)
    hog.start("fall_silent")
    seen.eventually("it has the turn", lambda: node.session("hog")["state"] == "Holding")
    neighbour.send("request")
    sentence = "Waiting for default/hog to release its memory: it did not yield within 2 s."
    seen.eventually("the neighbour is told why it waits", lambda: sentence in message(node, "neighbour"))
    seen.eventually("it has ended", lambda: hog.has_ended)
    neighbour.expect("grant")
    assert node.session("hog")["evicted"] == "TurnNotReleased"
    assert "stopped by the node agent after 4 s of grace: does not release its memory" in message(node, "hog")
    overdue, stopped = (
        logged_seconds(node, text)
        for text in ("reason=TurnNotReleased", "sending SIGTERM container=default/hog/")
    )
    (lost,) = (turn for turn in node.get("/turns") if turn["pod"] == "hog")
    (turn,) = (turn for turn in node.get("/turns") if turn["pod"] == "neighbour")
    # No limit ends early; the load of the machine decides how much later, and how long after the event it is logged. The log's
    # times are rounded down to a millisecond. A reading of the GPU counts the time since the one before, also where the agent
    # could not read it for a while.
    assert lost["end"] == "revoked"
    assert overdue - lost["end_seconds"] > timeout_seconds - 0.01
    counted_seconds = QUICK["probeSeconds"] + seen.longest_seconds
    assert stopped - overdue > grace_seconds - counted_seconds
    assert turn["waited_seconds"] > 2 * timeout_seconds + grace_seconds - counted_seconds


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
    eventually("it is stopped", lambda: node.session("grows")["processes"] == [])
    assert node.session("grows")["evicted"] == "MemoryNotCovered"
    assert "gets no turns" in message(node, "grows")
    assert len(node.session("stays")["processes"]) == 1
