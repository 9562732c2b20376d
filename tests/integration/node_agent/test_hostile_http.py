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
from tests.support.node_agent.progress import ALONE_SECONDS, train_together, undisturbed_progress_ratio

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
    eventually("it is healthy", node.is_healthy)
    before = Footprint.at_rest(node)

    def attacked() -> list[float]:
        with attacking(node, attack, addresses, SECONDS) as attacker:
            for worker in workers:
                worker.start("train", seconds=SECONDS - 1, iteration_seconds=0.005)
            for path in ("/healthz", "/metrics", "/sessions", "/turns") * 3:
                eventually(f"{path} is answered", lambda path=path: answered(node, path))
                during = Footprint.of(node)
                assert during.threads <= before.threads + MAX_CONNECTIONS + MAX_CLOSING
                assert during.descriptors <= before.descriptors + MAX_CONNECTIONS + MAX_CLOSING + 8
                assert during.resident_bytes <= before.resident_bytes + (96 << 20)
            rates = [len(worker.finish()["iterations"]) / (SECONDS - 1) for worker in workers]
            assert attacker.stdout is not None
            outcome = json.loads(attacker.stdout.readline())
            assert outcome["connected"] >= 64, outcome
            return rates

    def alone() -> list[float]:
        # A process takes a CPU all the same: the attack is measured, and not the machine.
        with attacking(node, "compute", addresses, ALONE_SECONDS):
            return train_together(workers, ALONE_SECONDS)

    assert undisturbed_progress_ratio(alone, attacked, bound=0.5) > 0.5
    comes_back(node, before)
    assert "Traceback" not in node.log
    # Connections of the attack that nobody has accepted yet may still be in the way.
    turns = eventually("/turns is answered", lambda: answered(node, "/turns"))
    assert not [turn for turn in turns[0] if turn["end"] not in ("released", None)]


@pytest.mark.parametrize("attack", ["slow_loris", "many"])
def test_a_flood_of_connections_does_not_stay_before_others(make_node: MakeNode, attack: str) -> None:
    node = make_node().start()
    with attacking(node, attack, addresses=8, seconds=600) as attacker:
        eventually("the flood is noticed", lambda: "blocked a source of too many connections" in node.log)
        for _ in range(20):
            eventually("no connection waits to be accepted", lambda: accept_queue(node) == 0)
        eventually("others are answered", node.is_healthy)
        assert attacker.poll() is None, "the attack goes on"


@contextmanager
def attacking(node: Node, attack: str, addresses: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    attacker = subprocess.Popen(
        [sys.executable, str(ATTACKER), str(node.port), attack, str(addresses), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert attacker.stdout is not None
    try:
        assert attacker.stdout.readline() == "ready\n"
        yield attacker
    finally:
        attacker.kill()
        attacker.wait()
        attacker.stdout.close()


def accept_queue(node: Node) -> int:
    """Return how many connections wait in the kernel, as proc_net_tcp(5) has it for a listening socket."""
    listening = "0A"
    for line in Path(f"/proc/{node.agent_pid}/net/tcp").read_text(encoding="utf-8").splitlines()[1:]:
        _, local, _, state, queues, *_ = line.split()
        if state == listening and int(local.rpartition(":")[2], 16) == node.port:
            return int(queues.rpartition(":")[2], 16)
    raise AssertionError("the agent does not listen")


def answered(node: Node, path: str) -> list[Any]:
    """Return the answer, as a list of one; empty: there is none. It is asked for again then, as kubelets and Prometheus do."""
    try:
        return [node.get(path, timeout_seconds=10)]
    except OSError:
        return []
