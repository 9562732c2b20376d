"""Trainings with a node's agent: turns of jobs and ranks, and what happens when the agent goes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.support.client.jobs import EXAMPLES, Job, end_of, iterations, turns
from tests.support.node_agent.node import Node, eventually, overlaps

MakeNode = Callable[..., Node]
Run = Callable[..., Job]


def test_two_jobs_of_one_lane_take_turns(make_node: MakeNode, run: Run) -> None:
    """They train until the lane went to and fro: after a slow first iteration, the other job gets a long turn."""
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 1})
    jobs = {
        pod: run("offloaded.py", "batchnorm-sgd", container=node.container(pod, 40)) for pod in ("a", "b")
    }
    eventually(
        "the lane went to and fro", lambda: all(len(turns(node, pod)) > 5 for pod in jobs), seconds=200
    )
    for job in jobs.values():
        job.enough()
    steps = {pod: len(job.results()[-1]["losses"]) for pod, job in jobs.items()}
    assert overlaps(node.get("/turns")) == []
    for pod in jobs:
        assert iterations(node, pod) == steps[pod]


def test_distributed_data_parallel_has_a_session_and_turns_for_each_worker(
    make_node: MakeNode, run: Run, rendezvous_port: Callable[[], int]
) -> None:
    node = make_node()
    environment = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(rendezvous_port()), "WORLD_SIZE": "2"}
    workers = [
        run(
            "digits_ddp.py",
            "--steps=20",
            "--batch=128",
            scripts=EXAMPLES,
            container=node.container(f"worker-{rank}", 50, gpu=rank, spans_gpus=True),
            RANK=str(rank),
            **environment,
        )
        for rank in range(2)
    ]
    first, second = (worker.results()[-1] for worker in workers)
    assert first["accuracy"] == second["accuracy"] > 0.5
    for rank in range(2):
        assert iterations(node, f"worker-{rank}") == 20


def test_workers_of_one_container_share_its_turn_and_their_launcher_has_none(
    make_node: MakeNode, run: Run, rendezvous_port: Callable[[], int]
) -> None:
    node = make_node()
    job = run(
        "launch.py",
        str(rendezvous_port()),
        "ddp.py",
        container=node.container("job", 50),
    )
    results = {result["rank"]: result for result in job.results()}
    assert set(results) == {0, 1}
    assert results[0]["parameters"] == results[1]["parameters"]
    assert iterations(node, "job") == 20
    assert node.session("job")["sizes"], "every process that asked for a turn has sent its profile"


def test_a_training_survives_the_agents_death_and_finds_the_next_one(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    container = node.container("job", 50)
    job = run(
        "digits_long.py",
        "--steps=200",
        "--checkpoint-every=10",
        "--checkpoint-dir=checkpoints",
        scripts=EXAMPLES,
        container=container,
        LANEWAY_AGENT_TIMEOUT_SECONDS="0.5",
    )
    while '"checkpoint"' not in job.line():
        pass
    node.kill()
    for _ in range(4):
        while '"checkpoint"' not in job.line():
            pass
    # It waits for the next agent, which might otherwise take longer to start than the rest of the training.
    os.kill(job.pid, signal.SIGSTOP)
    node.start()
    container.await_socket()
    os.kill(job.pid, signal.SIGCONT)
    eventually("the session is back", lambda: node.session("job")["iterations"] > 0)
    assert job.results()[-1]["steps"] == 200
    report = end_of(node, "job")["report"]
    assert (report["step"], report["steps"]) == (200, 200), (
        "the steps are counted by its checkpoints; the script reports nothing"
    )
