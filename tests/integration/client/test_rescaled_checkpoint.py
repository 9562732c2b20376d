"""Checkpoints restored into another number of ranks, with real torch.distributed: the loss curve is that of a
run without the change, and each sample of an epoch is trained once."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.client.jobs import Job

SAMPLES = 108
EPOCH_STEPS = 9

Train = Callable[..., str]
Steps = dict[int, list[dict[str, Any]]]
Undisturbed = Callable[[str], Steps]


@pytest.fixture
def train(tmp_path: Path, run: Callable[..., Job], rendezvous_port: Callable[[], int]) -> Train:
    """Runs the stages of a job in a folder; returns its stderr."""
    nobody = tmp_path / "nobody"
    nobody.mkdir()

    def begin(work: Path, *words: str) -> str:
        ports = ",".join(str(rendezvous_port()) for _ in words)
        status, output, errors = run("rescaled.py", *words, work=work, laneway=nobody, PORTS=ports).failure()
        assert status == 0, errors
        stages = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        assert all(set(stage["statuses"]) <= {0, 9} for stage in stages), errors
        assert stages[-1]["statuses"] == [0] * stages[-1]["ranks"], errors
        return errors

    return begin


@pytest.fixture(scope="module")
def known_curves() -> dict[str, Steps]:
    return {}


@pytest.fixture
def undisturbed(
    train: Train, tmp_path_factory: pytest.TempPathFactory, known_curves: dict[str, Steps]
) -> Undisturbed:
    """Returns the steps of a training with DistributedDataParallel and four ranks, by its optimizer."""

    def steps(optimizer: str) -> Steps:
        if optimizer not in known_curves:
            work = tmp_path_factory.mktemp("undisturbed") / "work"
            train(work, f"--optimizer={optimizer}", "--epochs=3", "4")
            known_curves[optimizer] = lasting(work)
        return known_curves[optimizer]

    return steps


def lasting(work: Path) -> Steps:
    """Returns what each rank wrote of each step, without what was trained again after a resume."""
    by_step: dict[int, list[dict[str, Any]]] = {}
    ranks_of: dict[int, int] = {}
    for path in sorted(work.glob("steps.*")):
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            by_step.setdefault(entry["step"], []).append(entry)
            if path.name == "steps.0":
                ranks_of[entry["step"]] = entry["ranks"]
    return {
        step: [entry for entry in found if entry["ranks"] == ranks_of[step]]
        for step, found in by_step.items()
    }


@pytest.mark.parametrize(
    ("kind", "stages"),
    [
        pytest.param("ddp", ("4:13", "2:17", "1:20", "3"), marks=pytest.mark.long),
        pytest.param("fsdp", ("4:13", "2:17", "3"), marks=pytest.mark.long),
        ("fsdp2", ("4:13", "2:17", "3")),
        pytest.param("tensor", ("2:13", "3"), marks=pytest.mark.long),
    ],
)
def test_a_rescaled_training_has_the_loss_curve_of_one_that_is_not(
    train: Train, undisturbed: Undisturbed, tmp_path: Path, kind: str, stages: tuple[str, ...]
) -> None:
    errors = train(tmp_path / "rescaled", f"--kind={kind}", "--epochs=3", *stages)
    assert "the checkpoint has" in errors
    assert "trained twice or left out" not in errors
    fixed, rescaled = undisturbed("adam"), lasting(tmp_path / "rescaled")
    assert len({entry["ranks"] for found in rescaled.values() for entry in found}) == len(stages)
    assert set(rescaled) == set(fixed) == set(range(3 * EPOCH_STEPS))
    for step, found in rescaled.items():
        assert found[0]["loss"] == pytest.approx(fixed[step][0]["loss"], rel=2e-6)
        parts = found[:1] if kind == "tensor" else found  # there all ranks train the same samples
        batch = sorted(itertools.chain.from_iterable(entry["samples"] for entry in parts))
        assert batch == sorted(itertools.chain.from_iterable(entry["samples"] for entry in fixed[step]))
        assert found[0]["batches"] == [step % EPOCH_STEPS + 1, EPOCH_STEPS]


def test_a_smaller_batch_of_all_ranks_continues_with_the_samples_that_are_left(
    train: Train, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    train(work, "--local-batch=5", "--samples=100", "--epochs=1", "4:4", "3")
    trained = [sample for found in lasting(work).values() for entry in found for sample in entry["samples"]]
    assert set(trained) == set(range(100))
    assert len(trained) == 102, "40 samples do not divide among 3 ranks: two fill up, as in any epoch"


@pytest.mark.parametrize("seeds", ["own", pytest.param("same", marks=pytest.mark.long)])
def test_a_new_rank_draws_its_own_numbers_unless_all_ranks_draw_the_same(
    train: Train, tmp_path: Path, seeds: str
) -> None:
    work = tmp_path / "work"
    train(work, "--epochs=1", *["--same-seed"] * (seeds == "same"), "2:4", "3")
    drawn = [entry["drawn"] for entry in lasting(work)[3]]
    before = [
        json.loads(line)["drawn"]
        for rank in (0, 1)
        for line in (work / f"steps.{rank}").read_text().splitlines()
        if json.loads(line)["step"] == 3
    ]
    assert drawn[:2] == [before[0], before[2]], "a rank that was there goes on with its numbers"
    assert len(set(drawn)) == (3 if seeds == "own" else 1)


def test_divided_parameters_that_are_damaged_are_rejected(train: Train, tmp_path: Path) -> None:
    work = tmp_path / "work"
    train(work, "--kind=fsdp", "--epochs=1", "2")
    newest = sorted((work / "checkpoints").glob("*.sharded"))[-1]
    (newest / "__1_0.distcp").write_bytes(b"something else")
    errors = train(work, "--kind=fsdp", "--epochs=2", "3")
    assert f"{newest.name}/__1_0.distcp is damaged" in errors
    kept = [
        {path.name.partition(".")[0] for path in (work / "checkpoints").glob(f"*.{kind}")}
        for kind in ("sharded", "checkpoint")
    ]
    assert kept[0] == kept[1]
    assert 2 <= len(kept[0]) <= 3, "the last one may have been complete only after the others were counted"
    assert newest.name.partition(".")[0] not in kept[0]


@pytest.mark.parametrize(
    ("kind", "stages"),
    [
        pytest.param("ddp", ("4:6:3", "2:12:0", "3"), marks=pytest.mark.long),
        pytest.param("fsdp", ("3:6:1", "2:12:0", "3"), marks=pytest.mark.long),
        ("fsdp2", ("3:6:1", "2:12:0", "3")),
    ],
)
def test_a_rank_that_is_killed_while_it_saves_loses_that_save_only(
    train: Train, undisturbed: Undisturbed, tmp_path: Path, kind: str, stages: tuple[str, ...]
) -> None:
    train(tmp_path / "killed", f"--kind={kind}", "--optimizer=sgd", "--epochs=2", *stages)
    fixed, killed = undisturbed("sgd"), lasting(tmp_path / "killed")
    assert set(killed) == set(range(2 * EPOCH_STEPS))
    for step, found in killed.items():
        assert found[0]["loss"] == pytest.approx(fixed[step][0]["loss"], rel=2e-6)
    trained = [json.loads(line) for line in (tmp_path / "killed" / "steps.0").read_text().splitlines()]
    assert next(entry["step"] for entry in trained if entry["ranks"] == 2) == 3, (
        "the save of step 6 was cut off"
    )
    names = [path.name for path in (tmp_path / "killed" / "checkpoints").iterdir()]
    assert not [name for name in names if name.endswith(".partial")], "what was cut off is deleted"
    assert len({name.partition("-")[0] for name in names}) <= 3


def test_accumulated_gradients_are_complete_at_each_save_after_a_rescale_within_a_step(
    train: Train, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    train(work, "--local-batch=3", "--accumulate=2", "--epochs=2", "2:8", "4")
    steps = lasting(work)
    assert next(found[0]["batches"][0] for found in steps.values() if len(found) == 4) == 4, (
        "3 batches are done"
    )
    for epoch in (0, 1):
        trained = [
            sample
            for found in steps.values()
            for entry in found
            if entry["epoch"] == epoch
            for sample in entry["samples"]
        ]
        assert sorted(trained) == list(range(SAMPLES))
