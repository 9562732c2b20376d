"""Memory is measured, not declared, and the quota holds: on a simulated GPU, CPU tensors stand for its
memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.client.jobs import EXAMPLES, Job, end_of, iterations
from tests.support.node_agent.node import Node, eventually

MakeNode = Callable[..., Node]
Run = Callable[..., Job]


def test_the_profile_matches_what_the_process_holds(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    (own,) = run("own_account.py", container=node.container("job", 50)).results()
    sizes = end_of(node, "job")["sizes"]
    assert sizes["persistent_bytes"] == pytest.approx(own["persistent"], rel=0.05)
    # Kept for the backward pass: the outputs of two hidden layers; at the peak also a third one, and
    # gradients of that size.
    assert 2 * own["activation"] < sizes["ephemeral_bytes"] < 6 * own["activation"]
    assert sizes["model_bytes"] == 4 * (256 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)
    assert sizes["largest_tensor_bytes"] == 4 * 512 * 512


def test_a_job_that_exceeds_its_share_fails_alone_and_names_the_limit(make_node: MakeNode, run: Run) -> None:
    node = make_node(lanes={"maxPerGpu": 1}, turns={"quantumMilliseconds": 1})
    neighbour = run(
        "digits.py", "--steps=60", "--batch=512", scripts=EXAMPLES, container=node.container("neighbour", 40)
    )
    eventually("the neighbour trains", lambda: node.session("neighbour")["sizes"], seconds=120)
    outgrows = run(
        "digits_growing.py",
        "--growth=1024",
        "--grow-every=2",
        scripts=EXAMPLES,
        container=node.container("outgrows", 2),
    )
    status, _, errors = outgrows.failure()
    assert status == 1
    last = errors.strip().splitlines()[-1]
    assert last.startswith(
        "torch.OutOfMemoryError: Laneway: out of GPU memory: this process may hold 20.0 MiB"
    )
    assert "would have fitted" in last
    eventually("the agent knows of it", lambda: "hit its memory quota" in node.log)
    assert neighbour.results()[-1]["steps"] == 60
    assert iterations(node, "neighbour") == 60


def test_a_script_that_catches_the_error_can_continue_with_less(make_node: MakeNode, run: Run) -> None:
    node = make_node()
    job = run("catches_out_of_memory.py", container=node.container("job", 2))
    assert job.lines() == ["out of memory", "went on with less"]


def test_a_suddenly_too_large_batch_is_refused_at_once(make_node: MakeNode, run: Run) -> None:
    """In the middle of a training with only some iterations traced."""
    node = make_node()
    job = run("catches_out_of_memory.py", "100", container=node.container("job", 2))
    assert job.lines() == ["out of memory", "went on with less"]
    eventually("the agent knows of it", lambda: "hit its memory quota" in node.log)


def test_a_job_within_its_share_fails_on_a_gpu_filled_by_others(make_node: MakeNode, run: Run) -> None:
    node = make_node(health={"probeSeconds": 1})
    (node.root / "run/laneway/simulated-faults.yaml").write_text(
        "gpus: [{gpu: 0, processes: {999999: 980Mi}}]"
    )
    grows = run(
        "digits_growing.py",
        "--growth=1024",
        "--grow-every=2",
        scripts=EXAMPLES,
        container=node.container("grows", 50),
    )
    status, _, errors = grows.failure()
    assert status == 1
    last = errors.strip().splitlines()[-1]
    assert last.startswith(f"torch.OutOfMemoryError: Laneway: out of GPU memory: {node.gpus[0]} is full.")
    assert "Other processes hold the rest" in last
    eventually("the agent knows of it", lambda: "reason=GPUFull message='found the GPU full" in node.log)
    assert "hit its memory quota" not in node.log
