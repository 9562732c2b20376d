"""The gradient noise scale and the batch, as the client finds them with real PyTorch, on gradients whose noise
is known; and the learning rate of a batch that grows."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.client.jobs import Job, end_of
from tests.support.node_agent.node import Node

NOISE_SCALE = 100
"""The script's."""

Find = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def find(tmp_path: Path, run: Callable[..., Job], rendezvous_port: Callable[[], int]) -> Find:
    """Returns what the client of each rank has found."""
    nobody = tmp_path / "nobody"
    nobody.mkdir()

    def found(*options: str) -> list[dict[str, Any]]:
        port = str(rendezvous_port())
        lines = run("noisy_gradients.py", *options, laneway=nobody, MASTER_PORT=port).results()
        return sorted(lines, key=lambda line: int(line["rank"]))

    return found


@pytest.mark.parametrize(
    ("options", "ranks", "passes"),
    [
        pytest.param((), 1, 1, id="one process", marks=pytest.mark.long),
        pytest.param(
            ("--passes=3", "--scaler"), 1, 3, id="accumulated and scaled gradients", marks=pytest.mark.long
        ),
        pytest.param(
            ("--passes=2", "--unused"),
            1,
            2,
            id="an unused parameter before the others",
            marks=pytest.mark.long,
        ),
        pytest.param(("--ranks=2",), 2, 1, id="DistributedDataParallel", marks=pytest.mark.long),
        pytest.param(
            ("--ranks=2", "--passes=3", "--scaler", "--unused"),
            2,
            3,
            id="DistributedDataParallel with no_sync, a scaler and an unused parameter",
        ),
    ],
)
def test_the_noise_scale_and_the_batch_are_found(
    find: Find, options: tuple[str, ...], ranks: int, passes: int
) -> None:
    found = find(*options)
    assert len(found) == ranks
    for each in found:
        assert (each["ranks"], each["local_batch"], each["passes"]) == (ranks, 8, passes)
        assert each["initial_batch"] == each["max_batch"] == 8 * ranks * passes
    noise_scale = statistics.mean(each["noise_scale"] for each in found)
    assert NOISE_SCALE / 1.5 < noise_scale < NOISE_SCALE * 1.5


def test_compiled_code_keeps_its_parameters_free_of_hooks(find: Find) -> None:
    assert find("--compiled", "--steps=50") == [{"rank": 0, "gain": 1.0}], (
        "the passes of a step are not known"
    )


@pytest.mark.parametrize("kind", [pytest.param("fsdp", marks=pytest.mark.long), "fsdp2"])
def test_sharded_gradients_have_the_same_noise_and_gain(find: Find, kind: str) -> None:
    found = find(f"--kind={kind}", "--ranks=2", "--rule=adascale")
    assert {(each["ranks"], each["local_batch"], each["passes"]) for each in found} == {(2, 8, 1)}
    noise_scale = statistics.mean(each["noise_scale"] for each in found)
    assert NOISE_SCALE / 1.5 < noise_scale < NOISE_SCALE * 1.5
    (gain,) = {each["gain"] for each in found}
    assert gain == pytest.approx((NOISE_SCALE / 8 + 1) / (NOISE_SCALE / 16 + 1), rel=0.1)


def test_a_rank_without_a_part_of_the_parameters_claims_no_noise(find: Find) -> None:
    found = find("--kind=fsdp2", "--ranks=2", "--rows=1", "--rule=adascale", "--steps=100")
    assert [each["noise_scale"] is None for each in found] == [False, True]
    assert len({each["gain"] for each in found}) == 1


def test_adascale_measures_one_gain_for_all_ranks(find: Find) -> None:
    gains = {each["gain"] for each in find("--ranks=2", "--rule=adascale")}
    assert len(gains) == 1, "otherwise the replicas would drift apart"
    assert gains.pop() == pytest.approx((NOISE_SCALE / 8 + 1) / (NOISE_SCALE / 16 + 1), rel=0.1)


def test_the_square_root_of_a_batch_that_grows(find: Find) -> None:
    found = find("--ranks=3", "--rule=square-root", "--steps=20")
    assert [each["gain"] for each in found] == [pytest.approx(3**0.5)] * 3
    assert {(each["initial_batch"], each["max_batch"]) for each in found} == {(8, 1024)}


def test_the_batch_that_the_operator_chose_is_trained_and_reaches_the_agent(
    make_node: Callable[..., Node], run: Callable[..., Job]
) -> None:
    node = make_node()
    options = ("--rule=square-root", "--max-local=16", "--steps=20")
    (found,) = run(
        "noisy_gradients.py", *options, container=node.container("job", 50), LANEWAY_BATCH="64"
    ).results()
    assert found["gain"] == pytest.approx((64 / 8) ** 0.5)
    batch = end_of(node, "job")["batch"]
    assert (batch["ranks"], batch["local_batch"], batch["passes"]) == (1, 16, 4)
    assert (batch["initial_batch"], batch["max_batch"], batch["max_local_batch"]) == (8, 1024, 16)
