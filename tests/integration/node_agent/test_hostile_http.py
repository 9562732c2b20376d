"""Attacks on the agent's HTTP port: it still answers others, with few threads, and turns continue."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from laneway.node_agent.report.bounded_server import MAX_CLOSING, MAX_CONNECTIONS

from tests.support.node_agent.footprint import Footprint, comes_back
from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.rounds import play_until_enough

MakeNode = Callable[..., Node]

ATTACKER = Path(__file__).with_name("http_attacker.py")
SECONDS = 4.0


@pytest.mark.parametrize(
    ("attack", "addresses"),
    [
        ("slow_loris", 1),
        pytest.param("slow_loris", 8, marks=pytest.mark.long),
        ("many", 8),
        pytest.param("scrapes", 1, marks=pytest.mark.long),
        ("scrapes", 8),
        ("long_requests", 1),
        ("deaf", 8),
    ],
)
def test_the_port_answers_others_under_attack(make_node: MakeNode, attack: str, addresses: int) -> None:
    node = make_node(turns={"quantumMilliseconds": 5}, lanes={"maxPerGpu": 1}).start()
    workers = [node.container(pod, 50).await_socket().process() for pod in "ab"]
    for worker in workers:
        worker.hello()
        worker.profile(10, 10)
    assert node.get("/healthz") == "ok\n"
    before = Footprint.of(node)

    def play() -> list[int]:
        with attacked(node, attack, addresses):
            for worker in workers:
                worker.start("train", seconds=SECONDS - 1, iteration_seconds=0.005)
            for path in ("/healthz", "/metrics", "/sessions", "/turns") * 3:
                eventually(f"{path} is answered", lambda path=path: answered(node, path))
                during = Footprint.of(node)
                assert during.threads <= before.threads + MAX_CONNECTIONS + MAX_CLOSING
                assert during.descriptors <= before.descriptors + MAX_CONNECTIONS + MAX_CLOSING + 8
                assert during.resident_bytes <= before.resident_bytes + (96 << 20)
            return [len(worker.finish()["iterations"]) for worker in workers]

    play_until_enough(play, 20)
    comes_back(node, before)
    assert "Traceback" not in node.log
    # Connections of the attack that nobody has accepted yet may still be in the way.
    turns = eventually("/turns is answered", lambda: answered(node, "/turns"))
    assert not [turn for turn in turns[0] if turn["end"] not in ("released", None)]


@contextmanager
def attacked(node: Node, attack: str, addresses: int) -> Iterator[None]:
    """Attack the agent's port for some seconds; at the end, the attack must have had connections."""
    attacker = subprocess.Popen(
        [sys.executable, str(ATTACKER), str(node.port), attack, str(addresses), str(SECONDS)],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert attacker.stdout is not None
        assert attacker.stdout.readline() == "ready\n"
        yield
        outcome = json.loads(attacker.stdout.readline())
        assert outcome["connected"] >= 64, outcome
    finally:
        attacker.kill()
        attacker.wait()
        attacker.stdout.close()


def answered(node: Node, path: str) -> list[Any]:
    """Return the answer, as a list of one; empty: there is none. It is asked for again then, as kubelets and Prometheus do."""
    try:
        return [node.get(path)]
    except OSError:
        return []
