"""Jobs whose activations exceed their share train on a real agent with the same results as without a limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.client.jobs import Job, end_of
from tests.support.node_agent.node import Container, Node

Run = Callable[..., Job]
GPU_MEBIBYTES = 48
MODELS = ("mlp", "cnn", "resnet", "transformer")


def models(*always: str) -> list[Any]:
    """Returns the models as parameters; all but those named are left to `make test-long`."""
    return [pytest.param(model, marks=[] if model in always else pytest.mark.long) for model in MODELS]


SLOW_COPIES = "--copy-bytes-per-second=50e6"
"""With these, moving a byte takes some ten times as long as computing it again."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with one small GPU: a percent of it is half a MiB."""
    node = Node(tmp_path_factory.mktemp("node"), gpus=1)
    node.profile = {"gpus": [{"model": "Simulated", "memory": f"{GPU_MEBIBYTES}Mi", "count": 1}]}
    yield node.start()
    node.end()


def outcome(job: Job) -> tuple[list[dict[str, Any]], dict[str, int]]:
    """A training's result, step by step, and the client's counts."""
    *results, counts = job.results()
    return results, counts


class Plain:
    """A job without a limit: its output and the memory that it needed."""

    def __init__(self, node: Node, work: Path, model: str) -> None:
        pod = f"plain-{model}"
        container = node.container(pod, 90)
        job = Job(["fit_training.py", model], work, container=container, LANEWAY_FIT="Off")
        self.results, counts = outcome(job)
        self.most_forwards = counts["most_forwards"]
        sizes = end_of(node, pod)["sizes"]
        self.persistent_bytes: int = sizes["persistent_bytes"]
        self.ephemeral_bytes: int = sizes["ephemeral_bytes"]
        container.remove()

    def share(self, percent: float) -> int:
        """Returns the smallest share of the GPU that holds this part of its ephemeral memory."""
        needed = self.persistent_bytes + self.ephemeral_bytes * percent / 100
        return math.ceil(100 * needed / (GPU_MEBIBYTES << 20))


@pytest.fixture(scope="module")
def plain(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Plain]:
    """Runs each model once without a limit."""
    runs: dict[str, Plain] = {}

    def of(model: str) -> Plain:
        if model not in runs:
            runs[model] = Plain(node, tmp_path_factory.mktemp("plain"), model)
        return runs[model]

    return of


@pytest.fixture
def container(node: Node) -> Iterator[Callable[[int], Container]]:
    """Makes one container with a share of the GPU."""
    made: list[Container] = []

    def make(share: int) -> Container:
        made.append(node.container("job", share))
        return made[-1]

    yield make
    for each in made:
        each.remove()


def assert_equal(results: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    """Checks losses and gradients of all steps, within what another order of additions may change."""
    assert len(results) == len(expected)
    for result, other in zip(results[:-1], expected[:-1], strict=True):
        assert result["loss"] == pytest.approx(other["loss"], rel=1e-5)
        assert result["norms"] == pytest.approx(other["norms"], rel=1e-4, abs=1e-7)
    # Batch normalisation's running statistics have changed once a step, however often a forward ran.
    assert results[-1]["buffers"] == pytest.approx(expected[-1]["buffers"], rel=1e-5)


@pytest.mark.parametrize("model", models("transformer"))
def test_offloaded_storages_are_prefetched_and_bitwise_equal(
    plain: Callable[[str], Plain], container: Callable[[int], Container], run: Run, model: str
) -> None:
    unlimited = plain(model)
    job = run("fit_training.py", model, container=container(unlimited.share(40)), LANEWAY_FIT="Offload")
    results, counts = outcome(job)
    assert_equal(results, unlimited.results)
    assert results[-1] == unlimited.results[-1], "copies are exact: every bit is the same"
    assert counts["fetched_ahead"] > 0, "some storages are prefetched before the backward pass needs them"
    assert counts["computed_again"] == 0


@pytest.mark.parametrize("model", [*models("cnn"), pytest.param("chance", marks=pytest.mark.long)])
def test_recomputed_modules_give_the_same_gradients(
    plain: Callable[[str], Plain], container: Callable[[int], Container], run: Run, model: str
) -> None:
    """The MLP, the CNN and the transformer have dropout, the CNN and the ResNet running statistics; `chance`
    draws from Python's and NumPy's generators as well."""
    unlimited = plain(model)
    job = run("fit_training.py", model, container=container(unlimited.share(65)), LANEWAY_FIT="Recompute")
    results, counts = outcome(job)
    assert_equal(results, unlimited.results)
    assert counts["modules_chosen"] > 0
    assert counts["computed_again"] > 0, "modules were recomputed, not only offloaded"
    assert counts["most_forwards"] <= 2 * unlimited.most_forwards, "no module runs once more as a trial"


@pytest.mark.parametrize("model", models("transformer"))
def test_auto_trains_within_a_part_of_the_memory(
    plain: Callable[[str], Plain], container: Callable[[int], Container], run: Run, model: str
) -> None:
    unlimited = plain(model)
    results, _ = outcome(
        run("fit_training.py", model, container=container(unlimited.share(65)), LANEWAY_FIT="Auto")
    )
    assert_equal(results, unlimited.results)


@pytest.mark.parametrize("model", [pytest.param("cnn", marks=pytest.mark.long), "transformer"])
def test_auto_recomputes_what_is_expensive_to_move(
    plain: Callable[[str], Plain], container: Callable[[int], Container], run: Run, model: str
) -> None:
    unlimited = plain(model)
    job = run(
        "fit_training.py", model, SLOW_COPIES, container=container(unlimited.share(65)), LANEWAY_FIT="Auto"
    )
    results, counts = outcome(job)
    assert_equal(results, unlimited.results)
    assert counts["computed_again"] > 0


def test_without_fit_the_job_runs_out_of_memory(
    plain: Callable[[str], Plain], container: Callable[[int], Container], run: Run
) -> None:
    job = run("fit_training.py", "mlp", container=container(plain("mlp").share(65)), LANEWAY_FIT="Off")
    status, _, errors = job.failure()
    assert status == 1
    assert "Laneway: out of GPU memory" in errors


def test_scripts_that_use_saved_tensors_are_unaffected(
    container: Callable[[int], Container], run: Run
) -> None:
    expected = run("fit_surprises.py").results()
    assert len(expected) == 6
    assert run("fit_surprises.py", container=container(60), LANEWAY_FIT="Offload").results() == expected


def test_batches_of_other_sizes_are_learned_again(
    plain: Callable[[str], Plain], container: Callable[[int], Container], run: Run
) -> None:
    sizes = "--sizes=1024,1024,1024,1024,640,1024,320,1024"
    expected, _ = outcome(run("fit_training.py", "mlp", "--steps=16", sizes))
    job = run(
        "fit_training.py",
        "mlp",
        "--steps=16",
        sizes,
        container=container(plain("mlp").share(50)),
        LANEWAY_FIT="Offload",
    )
    results, _ = outcome(job)
    assert results == expected
