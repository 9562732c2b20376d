"""Checkpoints of real PyTorch trainings: processes end at any moment, and the loss curve is that of an
undisturbed run, bit for bit."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.client.jobs import Job, end_of
from tests.support.node_agent.node import Node, eventually

MakeNode = Callable[..., Node]
Run = Callable[..., Job]
STEPS = 36
"""The script's, in one process: 3 epochs of 12 batches."""

LONG = pytest.mark.long


@pytest.fixture
def start(tmp_path: Path, run: Run) -> Callable[..., Job]:
    """Starts the script, with the client on its path and no agent."""
    nobody = tmp_path / "nobody"
    nobody.mkdir()

    def begin(*options: str, work: Path, **environment: str) -> Job:
        return run("resumable.py", *options, work=work, laneway=nobody, **environment)

    return begin


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory, rendezvous_port: Callable[[], int]
) -> Callable[..., Path]:
    """Returns the working folder of an undisturbed run with these options, in `ranks` processes; runs it once."""
    nobody = tmp_path_factory.mktemp("nobody")

    def start(*options: str, work: Path, **environment: str) -> Job:
        return Job(["resumable.py", *options], work, laneway=nobody, **environment)

    @cache
    def trained(*options: str, ranks: int = 1) -> Path:
        work = tmp_path_factory.mktemp("undisturbed")
        jobs = (
            [start(*options, work=work)]
            if ranks == 1
            else Gang(start, work, rendezvous_port(), *options).jobs
        )
        for job in jobs:
            job.lines()
        return work

    return trained


def curve(work: Path, rank: int = 0) -> dict[Any, str]:
    """Returns what the script wrote of each step and epoch; repeated steps must be equal in both runs."""
    found: dict[Any, str] = {}
    for line in (work / f"steps.{rank}").read_text().splitlines():
        entry = json.loads(line)
        key = entry.get("step", f"end of epoch {entry['epoch']}")
        assert found.setdefault(key, line) == line, "trained again, and otherwise"
    return found


def checkpoints(work: Path) -> list[str]:
    return sorted(path.name for path in (work / "checkpoints").glob("*.checkpoint"))


def partial(work: Path) -> list[Path]:
    return list((work / "checkpoints").glob("*.partial"))


@pytest.mark.parametrize(
    ("every", "options"),
    [
        pytest.param("--every-steps=4", (), id="global random numbers", marks=LONG),
        pytest.param("--every-steps=5", ("--own-generator",), id="a loader's own generator", marks=LONG),
        pytest.param(
            "--every-steps=5",
            ("--workers=2", "--persistent"),
            id="worker processes that stay",
            marks=LONG,
        ),
        pytest.param(
            "--every-steps=5", ("--workers=2", "--replay"), id="worker processes with random numbers"
        ),
        pytest.param("--every-steps=4", ("--accumulate=5",), id="accumulated gradients", marks=LONG),
    ],
)
def test_a_repeatedly_killed_training_has_the_undisturbed_loss_curve(
    start: Callable[..., Job],
    undisturbed: Callable[..., Path],
    tmp_path: Path,
    every: str,
    options: tuple[str, ...],
) -> None:
    work = tmp_path / "work"
    whole = curve(undisturbed(*options))
    assert {step for step in whole if isinstance(step, int)} == set(range(STEPS))
    for step in sorted(random.Random(str((every, *options))).sample(range(STEPS), 3)):
        status, _, errors = start(every, *options, f"--die-at={step}", work=work).failure()
        assert status == -signal.SIGKILL, errors
    results = start(every, *options, work=work).results()
    assert 0 < results[0]["step"] < STEPS, "it went on from a checkpoint"
    assert curve(work) == whole
    assert len(checkpoints(work)) == 2
    if "--workers=2" not in options:
        assert results[-1]["loaded"] == 8 * (STEPS - results[0]["step"]), (
            "what was trained is not loaded again"
        )


def is_stopped(pid: int) -> bool:
    """Return whether a signal has stopped each thread of a process. One inside the kernel first ends its call, such as a rename."""
    try:
        stats = [(thread / "stat").read_text() for thread in Path(f"/proc/{pid}/task").iterdir()]
    except FileNotFoundError:  # a thread has just ended
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def test_a_process_killed_during_a_save_resumes_from_the_save_before(
    start: Callable[..., Job], undisturbed: Callable[..., Path], tmp_path: Path
) -> None:
    wide, work = "--width=100000", tmp_path / "work"
    job = start(wide, "--every-steps=1", work=work)

    def caught_saving() -> list[Path]:
        """Stops it with a half-written file and two complete ones; otherwise it runs on."""
        if len(checkpoints(work)) < 2 or not partial(work):
            return []
        os.kill(job.pid, signal.SIGSTOP)
        eventually("all of its threads stand still", lambda: is_stopped(job.pid))
        caught = partial(work)
        if not caught:
            os.kill(job.pid, signal.SIGCONT)
        return caught

    eventually("it is in the middle of a save", caught_saving, seconds=120)
    before = checkpoints(work)
    job.kill()
    assert partial(work)
    assert checkpoints(work) == before
    results = start(wide, "--every-steps=12", work=work).results()
    assert results[0]["step"] >= 2
    assert results[-1]["step"] == STEPS
    assert curve(work) == curve(undisturbed(wide))
    assert not partial(work), "what was half written is cleared away"


def test_sigterm_saves_at_the_next_boundary_and_the_job_resumes_there(
    start: Callable[..., Job],
    undisturbed: Callable[..., Path],
    make_node: MakeNode,
    run: Run,
    tmp_path: Path,
) -> None:
    work = tmp_path / "work"
    node = make_node()
    for step, gpu in ((7, 0), (11, 1)):
        job = run(
            "resumable.py",
            f"--stop-at={step}",
            work=work,
            container=node.container(f"life-{gpu}", 50, gpu=gpu),
        )
        status, _, errors = job.failure()
        assert status == 143, errors
        assert len(curve(work)) == step + 1 + step // 12, "the step in which it came is the last"
        report = end_of(node, f"life-{gpu}")["report"]
        assert (report["step"], report["steps"]) == (step + 1, STEPS), "it counts the steps of all runs"
    results = start(work=work).results()
    assert results[0]["step"] == 12
    assert curve(work) == curve(undisturbed())


@LONG
def test_a_truncated_checkpoint_is_rejected_and_the_one_before_is_used(
    start: Callable[..., Job], undisturbed: Callable[..., Path], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    start("--epochs=1", "--every-steps=4", "--die-at=9", work=work).failure()
    newest = work / "checkpoints" / checkpoints(work)[-1]
    newest.write_bytes(newest.read_bytes()[:-1000])
    status, output, errors = start("--epochs=1", work=work).failure()
    assert status == 0, errors
    assert f"{newest.name} is truncated" in errors
    assert json.loads(output.splitlines()[0])["step"] == 4
    assert curve(work) == curve(undisturbed("--epochs=1"))


def test_foreign_checkpoints_are_rejected_and_the_jobs_newest_is_used(
    start: Callable[..., Job], undisturbed: Callable[..., Path], tmp_path: Path
) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    start("--epochs=1", "--every-steps=4", "--die-at=9", work=work).failure()
    start("--epochs=1", "--width=8", work=other).lines()
    (of_another_model,) = (other / "checkpoints").glob("*.checkpoint")
    shutil.copy(of_another_model, work / "checkpoints")
    of_nobody = work / "checkpoints" / "000000000020-0123abcd.0-of-1.checkpoint"
    of_nobody.write_bytes(b"something else that bears such a name")
    assert [int(name[:12]) for name in checkpoints(work)] == [4, 8, 13, 20]
    status, output, errors = start("--epochs=1", work=work).failure()
    assert status == 0, errors
    assert (
        f"checkpoint 20: {of_nobody.name} is not a Laneway checkpoint, or is truncated at its beginning; trying the one before"
        in errors
    )
    assert (
        "checkpoint 13: it belongs to another job: 0.weight of its model has shape (8, 16); the script's has (32, 16); "
        "trying the one before"
    ) in errors
    assert json.loads(output.splitlines()[0])["step"] == 8
    assert curve(work) == curve(undisturbed("--epochs=1"))
    assert not of_nobody.exists(), "otherwise the next run would try it again"


@LONG
def test_checkpoints_of_another_model_are_rejected_and_unchanged(
    start: Callable[..., Job], tmp_path: Path
) -> None:
    work = tmp_path / "work"
    start("--epochs=1", "--every-steps=4", work=work).lines()
    before = checkpoints(work)
    status, _, errors = start("--epochs=1", "--width=8", work=work).failure()
    assert status == 1
    assert (
        "it belongs to another job: 0.weight of its model has shape (32, 16); the script's has (8, 16)"
        in errors
    )
    assert "to start over, empty the folder or choose another" in errors
    assert checkpoints(work) == before


class Gang:
    """Two ranks in one working folder."""

    def __init__(self, start: Callable[..., Job], work: Path, port: int, *options: str) -> None:
        self.jobs = [
            start(
                *options,
                work=work,
                RANK=str(rank),
                WORLD_SIZE="2",
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=str(port),
            )
            for rank in range(2)
        ]

    def results(self) -> list[list[dict[str, Any]]]:
        """Waits for both ranks to succeed; returns what each printed."""
        return [job.results() for job in self.jobs]


@pytest.mark.parametrize("asked", [pytest.param(0, marks=LONG), 1])
def test_all_ranks_stop_at_one_step_when_one_is_asked_to(
    start: Callable[..., Job],
    undisturbed: Callable[..., Path],
    tmp_path: Path,
    rendezvous_port: Callable[[], int],
    asked: int,
) -> None:
    epochs, work = "--epochs=40", tmp_path / "work"
    stopped = Gang(start, work, rendezvous_port(), epochs, "--stop-at=20", f"--stop-rank={asked}")
    for job in stopped.jobs:
        status, _, errors = job.failure()
        assert status == 143, errors
    last = [max(step for step in curve(work, rank) if isinstance(step, int)) for rank in range(2)]
    assert last[0] == last[1] >= 20
    results = Gang(start, work, rendezvous_port(), epochs).results()
    assert [said[0]["step"] for said in results] == [last[0] + 1] * 2
    for rank in range(2):
        assert curve(work, rank) == curve(undisturbed(epochs, ranks=2), rank)


@LONG
def test_ranks_resume_from_the_newest_complete_generation(
    start: Callable[..., Job],
    undisturbed: Callable[..., Path],
    tmp_path: Path,
    rendezvous_port: Callable[[], int],
) -> None:
    work = tmp_path / "work"
    killed = Gang(start, work, rendezvous_port(), "--every-steps=3", "--die-at=10")
    for job in killed.jobs:
        assert job.failure()[0] == -signal.SIGKILL
    names = checkpoints(work)
    assert [name.partition(".")[2] for name in names] == [f"{rank}-of-2.checkpoint" for rank in (0, 1)] * (
        len(names) // 2
    )
    (work / "checkpoints" / names[-1]).unlink()
    results = Gang(start, work, rendezvous_port()).results()
    assert [said[0]["step"] for said in results] == [6, 6], "rank 1 has lost its file of step 9"
    for rank in range(2):
        assert curve(work, rank) == curve(undisturbed(ranks=2), rank)


def test_all_ranks_save_together_when_rank_0_is_due(
    start: Callable[..., Job], tmp_path: Path, rendezvous_port: Callable[[], int]
) -> None:
    work = tmp_path / "work"
    Gang(start, work, rendezvous_port(), "--epochs=90", "--every-seconds=0.3", "--die-at=1000").jobs[
        0
    ].failure()
    results = Gang(start, work, rendezvous_port(), "--epochs=90").results()
    assert 0 < results[0][0]["step"] == results[1][0]["step"] <= 1000


@LONG
def test_a_job_with_another_number_of_ranks_resumes_at_the_same_step(
    start: Callable[..., Job], tmp_path: Path, rendezvous_port: Callable[[], int]
) -> None:
    work = tmp_path / "work"
    for job in Gang(start, work, rendezvous_port(), "--every-steps=3", "--die-at=10").jobs:
        job.failure()
    status, output, errors = start(work=work).failure()
    assert status == 0, errors
    assert "the checkpoint has 2 ranks and this job 1" in errors
    assert json.loads(output.splitlines()[0])["step"] == 9
