"""The client in unusual containers: it works where it can, and does no harm where it cannot."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.client.jobs import Job, iterations
from tests.support.node_agent.node import Node, eventually, overlaps
from tests.support.torch_runtime import torch_runtime

MakeNode = Callable[..., Node]
Run = Callable[..., Job]


def test_an_unprivileged_user_on_a_read_only_image_has_turns_with_an_agent(
    make_node: MakeNode, run: Run, tmp_path: Path
) -> None:
    if os.getuid() != 0 or torch_runtime().root is None:
        pytest.skip("only root can enter a root file system as somebody else")
    node = make_node()
    (tmp_path / "nobody").mkdir()
    without_client, without_agent, without_rights = (
        run("train.py", "mlp"),
        run("train.py", "mlp", laneway=tmp_path / "nobody"),
        run("as_nobody.py", "/srv/scripts/train.py", "mlp", container=node.container("job", 50)),
    )
    expected = without_client.results()
    assert without_agent.results() == expected
    assert without_rights.results() == expected
    assert iterations(node, "job") == 12


@pytest.fixture
def late_node(tmp_path: Path) -> Iterator[Node]:
    """A node whose agent is not running yet."""
    root = tmp_path / "late"
    root.mkdir()
    node = Node(root)
    yield node
    node.end()


def test_an_agent_may_come_late_and_go_and_the_client_may_fail(late_node: Node, run: Run) -> None:
    folder = late_node.container("job", 50).folder
    job = run("disturbed.py", laneway=folder, LANEWAY_AGENT_TIMEOUT_SECONDS="0.5")
    assert int(job.line()) > 0, "it trains without an agent"
    late_node.start()
    for _ in range(2):
        reached = eventually("it has a session", lambda: late_node.session("job")["iterations"], seconds=60)
        late_node.kill()
        while int(job.line()) <= reached + 100:
            pass  # it trains on
        late_node.start()
    job.enough()
    lines = job.lines()
    assert lines[-1].startswith('{"same": true,'), lines[-1]
    warnings = [line for line in lines if line.startswith("internal error in the client")]
    assert len(warnings) == 1, "said once, and never again"


def test_a_live_agent_answers_pings_of_waiting_clients(make_node: MakeNode) -> None:
    process = make_node().container("job", 50).await_socket().process()
    assert process.hello()["answers_ping"] is True
    for _ in range(3):
        process.send("ping")
        process.expect("pong")


def test_a_hung_agent_blocks_nobody_for_good_and_grants_turns_when_it_wakes_up(
    make_node: MakeNode, run: Run
) -> None:
    """Two jobs of one lane: when the agent is stopped, one of them waits for a turn, and soon both do."""
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 20})
    pods = ("first", "second")
    jobs = [
        run("disturbed.py", container=node.container(pod, 50), LANEWAY_AGENT_TIMEOUT_SECONDS="1")
        for pod in pods
    ]
    for pod in pods:
        eventually(f"{pod} has turns", lambda pod=pod: node.session(pod)["turns"] > 2, seconds=200)
    reached = [node.session(pod)["iterations"] for pod in pods]
    os.kill(node.agent_pid, signal.SIGSTOP)
    for job, before in zip(jobs, reached, strict=True):
        while int(job.line()) <= before + 200:
            pass  # more steps than it does in a quantum: it trains on without turns
    os.kill(node.agent_pid, signal.SIGCONT)
    woke_seconds = time.time()

    def later_turns() -> list[dict[str, Any]]:
        return [turn for turn in node.get("/turns") if turn["start_seconds"] > woke_seconds]

    for pod in pods:
        eventually(f"{pod} has turns again", lambda pod=pod: [t for t in later_turns() if t["pod"] == pod])
    assert not overlaps(later_turns()), "the lane has one holder"
    for job in jobs:
        job.enough()
    for job in jobs:
        assert job.lines()[-1].startswith('{"same": true,')
    assert "packet handling failed" not in node.log, node.log
