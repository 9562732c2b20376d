"""Pause, offload and restore of a real PyTorch job during its training, ordered on the node's command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.client.jobs import Job
from tests.support.node_agent.node import Node, eventually
from tests.support.node_agent.shell import order

MakeNode = Callable[..., Node]
Run = Callable[..., Job]


def reach(job: Job, step: int) -> None:
    """Waits until it has trained this far."""
    while job.line() != f"step {step}":
        pass


def in_state(node: Node, state: str) -> dict[str, Any]:
    """Waits until the job's session is in a state; returns it."""
    return dict(
        eventually(
            f"the session is {state}",
            lambda: (session := node.session("job"))["state"] == state and session,
            seconds=60,
        )
    )


def paced(run: Run, node: Node, kind: str = "tied-adam") -> Job:
    """A training that runs until it is told to stop."""
    return run("offloaded.py", kind, "--pace=0.02", container=node.container("job", 50))


def ends_as_if_undisturbed(job: Job, run: Run, kind: str = "tied-adam") -> int:
    """Ends it, and compares it with an undisturbed training of as many steps; returns their number."""
    job.enough()
    (actual,) = job.results()
    steps = len(actual["losses"])
    (expected,) = run("offloaded.py", kind, f"--steps={steps}").results()
    assert actual == expected
    return steps


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("tied-sgd", marks=pytest.mark.long),
        "tied-adam",
        pytest.param("batchnorm-sgd", marks=pytest.mark.long),
        pytest.param("batchnorm-adam", marks=pytest.mark.long),
    ],
)
def test_a_job_offloaded_in_mid_epoch_ends_as_if_undisturbed(
    make_node: MakeNode, run: Run, kind: str
) -> None:
    node = make_node()
    job = paced(run, node, kind)
    reach(job, 10)
    before = eventually("it is measured", lambda: node.session("job")["sizes"])["persistent_bytes"]

    order(node, "pause", "default/job", "--reason", "a look")
    paused = in_state(node, "Paused")
    assert "paused by order (a look)" in paused["message"]
    assert paused["held_bytes"] > before / 2
    order(node, "offload", "default/job")
    offloaded = in_state(node, "Offloaded")
    assert offloaded["offloaded_bytes"] > 0.9 * before
    assert offloaded["held_bytes"] < 0.1 * before
    assert offloaded["lane"] is None
    assert offloaded["iterations"] > 10

    order(node, "restore", "default/job")
    reach(job, offloaded["iterations"] + 5)
    steps = ends_as_if_undisturbed(job, run, kind)
    assert node.session("job")["iterations"] == steps


@pytest.mark.long
def test_a_job_may_be_moved_repeatedly(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    job = paced(run, node)
    for step in (5, 15, 25, 35):
        reach(job, step)
        order(node, "offload", "default/job")
        in_state(node, "Offloaded")
        order(node, "restore", "default/job")
    ends_as_if_undisturbed(job, run)


def test_a_script_stopped_while_offloaded_has_its_memory_back_for_its_checkpoint(
    make_node: MakeNode, run: Run
) -> None:
    node = make_node()
    job = run("checkpoints_when_stopped.py", container=node.container("job", 50))
    reach(job, 10)
    order(node, "offload", "default/job")
    in_state(node, "Offloaded")
    job.terminate()
    (saved,) = job.results()
    assert saved["finite"]
    assert saved["numbers"] == saved["expected"]


def test_a_restarted_agent_knows_which_jobs_are_offloaded(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    job = paced(run, node)
    reach(job, 10)
    order(node, "offload", "default/job")
    moved = in_state(node, "Offloaded")["offloaded_bytes"]
    assert node.terminate() == 0
    node.start()
    eventually(
        "the process is back, its memory where it was",
        lambda: any(process["connected"] for process in node.session("job")["processes"]),
    )
    session = in_state(node, "Offloaded")
    assert session["offloaded_bytes"] == moved
    order(node, "restore", "default/job")
    ends_as_if_undisturbed(job, run)
