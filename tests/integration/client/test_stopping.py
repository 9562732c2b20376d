"""SIGTERM stops a training between two iterations, and a script that saves a checkpoint resumes there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.client.jobs import EXAMPLES, Job
from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.shell import order

MakeNode = Callable[..., Node]
Run = Callable[..., Job]
STEPS = 150
"""Most of them are left when the script has saved its first checkpoint, and SIGTERM comes a little later."""


def steps(folder: Path) -> list[tuple[int, float]]:
    lines = (folder / "checkpoints/steps.log").read_text().splitlines()
    return [(entry["step"], entry["loss"]) for entry in map(json.loads, lines)]


def test_a_script_with_checkpoints_resumes_on_the_same_loss_curve(
    make_node: MakeNode, run: Run, tmp_path: Path
) -> None:
    command = [
        "digits_long.py",
        f"--steps={STEPS}",
        "--batch=256",
        "--checkpoint-every=20",
        "--checkpoint-dir=checkpoints",
    ]
    nobody = tmp_path / "nobody"
    nobody.mkdir()
    undisturbed = run(*command, scripts=EXAMPLES, laneway=nobody)
    undisturbed.lines()
    node, work = make_node(), tmp_path / "work"
    first = run(*command, scripts=EXAMPLES, work=work, container=node.container("first", 50))
    while '"checkpoint"' not in first.line():
        pass
    first.terminate()
    status, output, errors = first.failure()
    assert status == 143, errors
    stopped_after = len(steps(work))
    assert 20 <= stopped_after < STEPS
    assert json.loads(output.splitlines()[-1]) == {"event": "checkpoint", "step": stopped_after}
    second = run(*command, scripts=EXAMPLES, work=work, container=node.container("second", 50))
    results = second.results()
    assert results[0] == {"event": "start", "step": stopped_after, "target": STEPS}
    assert results[-1]["steps"] == STEPS
    assert steps(work) == steps(undisturbed.work), "each step once, with the loss of the undisturbed run"


def test_a_script_without_a_handler_ends_between_two_iterations(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    job = run("without_handler.py", container=node.container("job", 50))
    assert job.line() == "running"
    job.terminate()
    status, output, _ = job.failure()
    assert status == 143
    said = json.loads(output.splitlines()[-1])
    assert said["inside"] is False
    assert said["steps"] >= 5


def test_a_script_that_waits_for_its_turn_is_stopped_at_once(make_node: MakeNode, run: Run) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 60_000})
    holder = run("without_handler.py", container=node.container("holder", 40))
    assert holder.line() == "running"
    waiting = run("train.py", "mlp", container=node.container("waiting", 40))
    eventually("it waits for a turn", lambda: node.session("waiting")["state"] == "Waiting", seconds=120)
    waiting.terminate()
    status, _, errors = waiting.failure()
    assert status == 143, errors


@pytest.mark.parametrize("asked", [pytest.param(0, marks=pytest.mark.long), 1])
def test_ranks_end_after_the_same_iteration_when_one_is_asked_to(
    make_node: MakeNode, run: Run, rendezvous_port: Callable[[], int], asked: int
) -> None:
    node, port = make_node(), rendezvous_port()
    workers = [
        run(
            "ddp_without_handler.py",
            container=node.container(f"worker-{rank}", 50, gpu=rank, spans_gpus=True),
            RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            STOPPED_RANK=str(asked),
            LANEWAY_STOP_TIMEOUT_SECONDS="100",
        )
        for rank in range(2)
    ]
    said = []
    for worker in workers:
        status, output, errors = worker.failure()
        assert status == 143, errors
        said.append(json.loads(output.splitlines()[-1]))
    assert said[0] == said[1]
    assert said[0]["inside"] is False
    assert said[0]["steps"] >= 20


def test_paused_ranks_are_stopped_where_they_are(
    make_node: MakeNode, run: Run, rendezvous_port: Callable[[], int]
) -> None:
    node, port = make_node(turns={"timeoutSeconds": 120}), rendezvous_port()
    workers = [
        run(
            "ddp_without_handler.py",
            container=node.container(f"worker-{rank}", 50, gpu=rank, spans_gpus=True),
            RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            STOPPED_RANK="-1",
            LANEWAY_STOP_TIMEOUT_SECONDS="1000",
        )
        for rank in range(2)
    ]
    sessions = [f"worker-{rank}" for rank in range(2)]
    eventually("they train", lambda: all(node.session(pod)["iterations"] > 20 for pod in sessions), 120)
    for pod in sessions:
        order(node, "pause", f"default/{pod}")
    eventually("they are paused", lambda: {node.session(pod)["state"] for pod in sessions} == {"Paused"}, 60)
    paused_after = [node.session(pod)["iterations"] for pod in sessions]
    workers[1].terminate()
    said = []
    for worker in workers:
        status, output, errors = worker.failure()
        assert status == 143, errors
        said.append(json.loads(output.splitlines()[-1])["steps"])
    assert said == paused_after
