"""The libraries through which people train: results are bitwise equal, and each of their own steps is an
iteration."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.client.frameworks.conftest import SCRIPTS
from tests.support.client.jobs import EXAMPLES, Job, iterations
from tests.support.node_agent.node import Container, Node, eventually, overlaps

MakeContainer = Callable[..., Container]
Run = Callable[..., Job]

STEPS = 8


def ended_well(job: Job) -> tuple[list[dict[str, Any]], str]:
    """Waits for its success; returns what it printed, and its standard error."""
    status, output, errors = job.failure()
    assert status == 0, errors
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")], errors


@pytest.mark.parametrize(
    ("script", "kinds", "fit"),
    [
        pytest.param("lightning.py", ["automatic", "manual"], "Auto", id="Lightning"),
        pytest.param(
            "hugging_face.py",
            ["trainer", "checkpointing", "accelerate"],
            "Offload",
            id="Hugging Face",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_trainers_steps_are_iterations(
    node: Node, container: MakeContainer, run: Run, script: str, kinds: list[str], fit: str
) -> None:
    command = (script, f"--steps={STEPS}", *kinds)
    without = run(*command, scripts=SCRIPTS)
    with_client = run(*command, scripts=SCRIPTS, container=container(kinds[0]), LANEWAY_FIT=fit)
    expected = without.results()
    assert [result["steps"] for result in expected] == [STEPS] * len(kinds)
    assert with_client.results() == expected
    assert iterations(node, kinds[0]) == STEPS * len(kinds)


@pytest.mark.long
def test_lightning_trains_in_a_share_smaller_than_its_activations(container: MakeContainer, run: Run) -> None:
    command = ("lightning.py", "automatic", "--steps=6", "--batch=2048", "--layers=24")
    without = run(*command, scripts=SCRIPTS)
    fitted = run(*command, scripts=SCRIPTS, container=container("fitted", 14))
    unfitted = run(*command, scripts=SCRIPTS, container=container("unfitted", 14), LANEWAY_FIT="Off")
    assert fitted.results() == without.results()
    status, _, errors = unfitted.failure()
    assert status == 1
    assert "Laneway: out of GPU memory" in errors


@pytest.mark.long
def test_compiled_code_takes_turns_although_no_hook_is_called_in_it(
    node: Node, container: MakeContainer, run: Run
) -> None:
    # With inductor's cache in the working folder, the second run proves that its graphs are those of the
    # first.
    runs = ["model:inductor", "model:aot_eager", "function:aot_eager", "optimizer:eager", "whole:eager"]
    without = run("compiled.py", *runs, f"--steps={STEPS}", scripts=SCRIPTS)
    expected = without.results()
    with_client = run(
        "compiled.py",
        *runs,
        f"--steps={STEPS}",
        scripts=SCRIPTS,
        container=container("compiled"),
        work=without.work,
        LANEWAY_FIT="Offload",
    )
    results, errors = ended_well(with_client)
    assert errors.count("not reduced in this process: parts of it are compiled") == 1
    assert [result.pop("cached") for result in expected] == [False] * len(runs)
    assert [result.pop("cached") for result in results] == [True] + [False] * (len(runs) - 1)
    assert results == expected
    assert iterations(node, "compiled") == STEPS * len(runs)


@pytest.mark.long
def test_torchruns_ranks_shard_their_model_and_torchrun_has_no_session(
    node: Node, container: MakeContainer, run: Run, rendezvous_port: Callable[[], int]
) -> None:
    command = (
        "torchrun.py",
        "--nproc-per-node=2",
        f"--master-port={rendezvous_port()}",
        "sharded.py",
        f"--steps={STEPS}",
    )
    expected = run(*command, scripts=SCRIPTS).results()
    job = run(*command, scripts=SCRIPTS, container=container("ranks"), LANEWAY_FIT="Offload")
    results, errors = ended_well(job)
    by_rank = {result["rank"]: result for result in results}
    assert by_rank == {result["rank"]: result for result in expected}
    assert by_rank[0]["parameters"] == by_rank[1]["parameters"]
    assert by_rank["none"]["session"] is False
    assert errors.count("not reduced in this process: its parameters are sharded") == 2
    assert iterations(node, "ranks") == 2 * STEPS


def test_torchrun_without_arguments_forms_the_gang_by_its_pods_variables(
    run: Run, rendezvous_port: Callable[[], int]
) -> None:
    """The variables are those of a gang of two workers with one GPU each; tests/unit/operator/test_manifests.py has the same."""
    port = str(rendezvous_port())
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    torchrun = {
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": port,
    }
    gang = [
        run(
            "torchrun.py",
            "sharded.py",
            scripts=SCRIPTS,
            **{**meeting, **torchrun, "RANK": str(rank), "PET_NODE_RANK": str(rank)},
        )
        for rank in (0, 1)
    ]
    ranks = [next(result for result in job.results() if result["rank"] != "none") for job in gang]
    assert [result["rank"] for result in ranks] == [0, 1]
    assert ranks[0]["parameters"] == ranks[1]["parameters"]


def test_a_notebook_holds_no_turn_between_its_cells(node: Node, container: MakeContainer, run: Run) -> None:
    notebook = run("notebook.py", scripts=SCRIPTS, container=container("notebook"))
    assert notebook.line() == "cells have run, and left iterations in the middle"
    eventually("the kernel has a session", lambda: node.session("notebook")["processes"])
    neighbour = run(
        "jax_digits.py", "--steps=20", "--batch=16", scripts=EXAMPLES, container=container("neighbour")
    )
    assert neighbour.results()[-1]["steps"] == 20
    notebook.enough()
    results = notebook.results()
    assert results == run("notebook.py", scripts=SCRIPTS, work=notebook.work).results()
    assert iterations(node, "notebook") == STEPS
    assert overlaps(node.get("/turns")) == []


@pytest.mark.long
def test_jax_takes_turns_where_the_script_marks_its_iterations(
    node: Node, container: MakeContainer, run: Run
) -> None:
    jobs = {
        pod: run("jax_digits.py", "--steps=200", scripts=EXAMPLES, container=container(pod))
        for pod in ("one", "other")
    }
    without = run("jax_digits.py", "--steps=200", scripts=EXAMPLES)
    expected = without.results()
    assert expected[-1]["accuracy"] > 0.9
    for pod, job in jobs.items():
        assert job.results() == expected
        assert iterations(node, pod) == 201, "the steps and the evaluation at the end"
    assert overlaps(node.get("/turns")) == []
