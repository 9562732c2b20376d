"""Iterations of unmodified PyTorch scripts are detected, and their results do not change."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.client.jobs import Job, iterations, turns
from tests.support.node_agent.node import Node, eventually, overlaps

MakeNode = Callable[..., Node]
Run = Callable[..., Job]

KINDS = {
    # kind: iterations in 12 of its steps
    "ranks": 22,  # two processes; a child of multiprocessing takes part from its first optimizer's step on
    "without-modules": 12,
    "mlp": 12,
    "cnn": 12,
    "transformer": 12,
    "accumulating": 12,
    "evaluating": 12,  # training iterations; the evaluations have turns and are not counted
    "generating": 0,
    "closures": 12,
    "scaled": 12,  # including three skipped steps
    "adversarial": 24,  # the critic's and the generator's steps
    "in-a-row": 12,
    "wrapped": 12,
    "in-backward": 12,
    "marked": 12,
    "compiled": 12,
}


def test_results_are_bitwise_equal_and_iterations_are_detected(make_node: MakeNode, run: Run) -> None:
    without = run("train.py", *KINDS)
    expected = {result["kind"]: result for result in without.results()}
    node = make_node()
    with_client = run("train.py", *KINDS, container=node.container("job", 50))
    lines = with_client.lines()
    assert {line for line in lines if not line.startswith("{")} == {
        f"{kind}: {count} iterations" for kind, count in KINDS.items()
    }
    for result in map(json.loads, (line for line in lines if line.startswith("{"))):
        assert result == expected[result["kind"]]
    assert iterations(node, "job") == sum(KINDS.values())


@pytest.mark.parametrize("start", [pytest.param("fork", marks=pytest.mark.long), "spawn"])
def test_workers_of_a_data_loader_open_no_session(make_node: MakeNode, run: Run, start: str) -> None:
    node = make_node()
    with_client = run("train.py", f"loader-{start}", container=node.container("loader", 50))
    without = run("train.py", f"loader-{start}")
    assert with_client.results() == without.results()
    facts = [json.loads(path.read_text()) for path in with_client.work.glob("worker-*.json")]
    assert len(facts) >= 2
    for fact in facts:
        assert fact == {"started": False, "threads": [], "modes": 0, "hooked": True}
    assert iterations(node, "loader") == 12


PLACES = [
    "data-of-this-process",  # between the items of a batch, which modules without parameters transform
    "data-of-a-worker",
    "skipped-step",
    "evaluation",
    "generation",
    "steps-in-a-row",
    "steps-in-the-backward-pass",
    "block",
]


def test_a_script_that_waits_between_iterations_holds_no_lane(make_node: MakeNode, run: Run) -> None:
    # No turn is revoked: the neighbour trains only where the lane was released.
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 1, "timeoutSeconds": 3000})
    neighbour = run("without_handler.py", container=node.container("neighbour", 40))
    assert neighbour.line() == "running"
    job = run("waits.py", container=node.container("job", 40))
    for place in PLACES:
        assert job.line() == place
        before = node.session("neighbour")["iterations"]
        eventually(
            f"the neighbour trains while the job waits at: {place}",
            lambda before=before: node.session("neighbour")["iterations"] > before + 2,
            seconds=60,
        )
        (job.work / f"go-on-{place}").touch()
    assert job.lines() == []
    record = node.get("/turns")
    assert overlaps(record) == []
    assert {turn["end"] for turn in record} <= {"released", None}
    assert len(turns(node, "job")) >= len(PLACES)
